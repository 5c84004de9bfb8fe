// Products of a weight matrix with a few columns at once, each block of weights unpacked once for all of them.
//
// Added to llama.cpp by recycle_cpp's set-up; included by ggml-cpu.c only.
//
// Verifying a draft tree evaluates 2 to 16 tokens at once. ggml multiplies them one by one (vec_dot) or in tiles of
// 4 x 4 (llamafile_sgemm), and unpacks every block of weights again for each column or tile. On x86 that unpacking costs
// more than the product itself. Here a block is unpacked once for up to 8 columns.
//
// Results are bit-identical to those of vec_dot in the same build: all that happens to one column happens in the order
// and the precision of ggml_vec_dot_{q4_1_q8_1,q5_0_q8_0,q8_0_q8_0} (arch/x86/quants.c), one block after the other, 8
// partial sums, then the same horizontal sum. Sums of bytes are integers, thus exact however they are formed. Whoever
// changes one of those functions has to change its sibling here.
//
// The functions bytes_from_bits, bytes_from_nibbles, dot_bytes and sum_lanes are ggml's, from arch/x86/quants.c:
//   MIT License, Copyright (c) 2023-2026 The ggml authors (the text is in llama.cpp's file LICENSE)

#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && defined(__GNUC__)

#include <immintrin.h>

#define FEW_COLUMNS_INLINE static inline __attribute__((always_inline))

enum {
    FEW_COLUMNS_AT_ONCE   =   8,  // columns that share an unpacked block: so many accumulators fit the registers
    FEW_COLUMNS_BLOCK     =  32,  // weights in a block, the same for all types served
    FEW_COLUMNS_BLOCKS    = 512,  // blocks in a row, at most: bounds the scales kept per thread
    FEW_COLUMNS_UNTIL     =  16,  // tiles of llamafile_sgemm are faster beyond
    FEW_COLUMNS_ONE_CHUNK =  32,  // up to here all columns stay in one chunk of work
};

// The scales of up to 8 columns, converted once: those of one block lie side by side.
struct few_columns_scales {
    float d[FEW_COLUMNS_BLOCKS][FEW_COLUMNS_AT_ONCE];
    float s[FEW_COLUMNS_BLOCKS][FEW_COLUMNS_AT_ONCE];  // block_q8_1 only: d times the sum of the block
};

FEW_COLUMNS_INLINE __m256i few_columns_bytes_from_nibbles(const uint8_t * packed) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *) packed);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(0xF));
}

FEW_COLUMNS_INLINE __m256i few_columns_bytes_from_bits(const uint8_t * packed) {
    uint32_t bits;
    memcpy(&bits, packed, sizeof(bits));
    const __m256i spread = _mm256_set_epi64x(
            0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0x0000000000000000);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int) bits), spread);
    const __m256i others = _mm256_set1_epi64x(0x7fbfdfeff7fbfdfe);
    return _mm256_cmpeq_epi8(_mm256_or_si256(bytes, others), _mm256_set1_epi64x(-1));
}

// 32 products of unsigned and signed bytes, summed in fours. No pair reaches the 16-bit limit: |u| <= 128, |s| <= 127.
FEW_COLUMNS_INLINE __m256 few_columns_dot_bytes(__m256i u, __m256i s) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_cvtepi32_ps(_mm256_dpbusd_epi32(_mm256_setzero_si256(), u, s));
#elif defined(__AVXVNNI__)
    return _mm256_cvtepi32_ps(_mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), u, s));
#else
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_set1_epi16(1), _mm256_maddubs_epi16(u, s)));
#endif
}

FEW_COLUMNS_INLINE float few_columns_sum_lanes(__m256 x) {
    __m128 sum = _mm256_extractf128_ps(x, 1);
    sum = _mm_add_ps(sum, _mm256_castps256_ps128(x));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    sum = _mm_add_ss(sum, _mm_movehdup_ps(sum));
    return _mm_cvtss_f32(sum);
}

// Adds to each column's partial sums the product of a block of signed weights with its block ib.
FEW_COLUMNS_INLINE void few_columns_add_signed(
        const int columns, __m256 * acc, ggml_half d, __m256i weights,
        const void * const * y, const struct few_columns_scales * scales, int64_t ib) {
    const __m256 dx = _mm256_set1_ps(GGML_CPU_FP16_TO_FP32(d));
    const __m256i magnitudes = _mm256_sign_epi8(weights, weights);
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) {
        const __m256i qy = _mm256_loadu_si256((const __m256i *) ((const block_q8_0 *) y[c])[ib].qs);
        const __m256 dot = few_columns_dot_bytes(magnitudes, _mm256_sign_epi8(qy, weights));
        acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(dx, _mm256_set1_ps(scales->d[ib][c])), dot, acc[c]);
    }
}

FEW_COLUMNS_INLINE void few_columns_dot_q8_0(
        const int columns, int64_t n_blocks, const block_q8_0 * x,
        const void * const * y, const struct few_columns_scales * scales, float * sums) {
    __m256 acc[FEW_COLUMNS_AT_ONCE];
    for (int c = 0; c < columns; c++) {
        acc[c] = _mm256_setzero_ps();
    }
    for (int64_t ib = 0; ib < n_blocks; ib++) {
        const __m256i weights = _mm256_loadu_si256((const __m256i *) x[ib].qs);
        few_columns_add_signed(columns, acc, x[ib].d, weights, y, scales, ib);
    }
    for (int c = 0; c < columns; c++) {
        sums[c] = few_columns_sum_lanes(acc[c]);
    }
}

FEW_COLUMNS_INLINE void few_columns_dot_q5_0(
        const int columns, int64_t n_blocks, const block_q5_0 * x,
        const void * const * y, const struct few_columns_scales * scales, float * sums) {
    __m256 acc[FEW_COLUMNS_AT_ONCE];
    for (int c = 0; c < columns; c++) {
        acc[c] = _mm256_setzero_ps();
    }
    for (int64_t ib = 0; ib < n_blocks; ib++) {
        const __m256i low  = few_columns_bytes_from_nibbles(x[ib].qs);
        const __m256i high = _mm256_andnot_si256(few_columns_bytes_from_bits(x[ib].qh), _mm256_set1_epi8((char) 0xF0));
        few_columns_add_signed(columns, acc, x[ib].d, _mm256_or_si256(low, high), y, scales, ib);
    }
    for (int c = 0; c < columns; c++) {
        sums[c] = few_columns_sum_lanes(acc[c]);
    }
}

FEW_COLUMNS_INLINE void few_columns_dot_q4_1(
        const int columns, int64_t n_blocks, const block_q4_1 * x,
        const void * const * y, const struct few_columns_scales * scales, float * sums) {
    __m256 acc[FEW_COLUMNS_AT_ONCE];
    for (int c = 0; c < columns; c++) {
        acc[c] = _mm256_setzero_ps();
    }
    __m256 min_sums = _mm256_setzero_ps();  // lane c belongs to column c
    for (int64_t ib = 0; ib < n_blocks; ib++) {
        // Written with operators, as vec_dot's scalar line is: the compiler fuses both or neither.
        min_sums += _mm256_set1_ps(GGML_CPU_FP16_TO_FP32(x[ib].m)) * _mm256_loadu_ps(scales->s[ib]);

        const __m256 dx = _mm256_set1_ps(GGML_CPU_FP16_TO_FP32(x[ib].d));
        const __m256i weights = few_columns_bytes_from_nibbles(x[ib].qs);
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++) {
            const __m256i qy = _mm256_loadu_si256((const __m256i *) ((const block_q8_1 *) y[c])[ib].qs);
            const __m256 dot = few_columns_dot_bytes(weights, qy);
            acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(dx, _mm256_set1_ps(scales->d[ib][c])), dot, acc[c]);
        }
    }
    float min_sum[FEW_COLUMNS_AT_ONCE];
    _mm256_storeu_ps(min_sum, min_sums);
    for (int c = 0; c < columns; c++) {
        sums[c] = few_columns_sum_lanes(acc[c]) + min_sum[c];
    }
}

static void few_columns_read_scales(
        enum ggml_type type, int columns, int64_t n_blocks, const void * const * y, struct few_columns_scales * scales) {
    for (int c = 0; c < columns; c++) {
        for (int64_t ib = 0; ib < n_blocks; ib++) {
            if (type == GGML_TYPE_Q4_1) {
                const block_q8_1 * block = (const block_q8_1 *) y[c] + ib;
                scales->d[ib][c] = GGML_CPU_FP16_TO_FP32(block->d);
                scales->s[ib][c] = GGML_CPU_FP16_TO_FP32(block->s);
            } else {
                scales->d[ib][c] = GGML_CPU_FP16_TO_FP32(((const block_q8_0 *) y[c] + ib)->d);
            }
        }
    }
}

// Multiplies rows row_start .. row_end of src0 with the columns y; dst_columns is where the first one's results go.
// Called with a constant number of columns: the loops over them must unroll for the sums to stay in registers.
FEW_COLUMNS_INLINE void few_columns_rows(
        const int columns, const struct ggml_tensor * src0, int64_t row_start, int64_t row_end,
        const void * const * y, const struct few_columns_scales * scales, char * dst_columns, size_t dst_stride) {
    const int64_t n_blocks = src0->ne[0] / FEW_COLUMNS_BLOCK;
    for (int64_t row = row_start; row < row_end; row++) {
        const void * x = (const char *) src0->data + row * src0->nb[1];
        float sums[FEW_COLUMNS_AT_ONCE];
        switch (src0->type) {
            case GGML_TYPE_Q4_1: few_columns_dot_q4_1(columns, n_blocks, x, y, scales, sums); break;
            case GGML_TYPE_Q5_0: few_columns_dot_q5_0(columns, n_blocks, x, y, scales, sums); break;
            default:             few_columns_dot_q8_0(columns, n_blocks, x, y, scales, sums); break;
        }
        for (int c = 0; c < columns; c++) {
            ((float *) (dst_columns + c * dst_stride))[row] = sums[c];
        }
    }
}

// Whether few_columns_mul_mat computes this product, told by types and shapes alone, so that all threads agree.
static bool few_columns_serves(const struct ggml_tensor * src0, const struct ggml_tensor * src1) {
    const bool packed = src0->type == GGML_TYPE_Q4_1 || src0->type == GGML_TYPE_Q5_0 || src0->type == GGML_TYPE_Q8_0;
    return packed && src1->type == GGML_TYPE_F32 && src1->ne[1] > 1 &&
           src0->ne[0] <= FEW_COLUMNS_BLOCKS * FEW_COLUMNS_BLOCK &&
           src0->ne[2] * src0->ne[3] == 1 && src1->ne[2] * src1->ne[3] == 1;
}

// Whether these columns are so few that few_columns_mul_mat is faster than llamafile_sgemm.
static bool few_columns_beats_tiles(const struct ggml_tensor * src0, const struct ggml_tensor * src1) {
    return src1->ne[1] <= FEW_COLUMNS_UNTIL && few_columns_serves(src0, src1);
}

// Computes rows row_start .. row_end and columns column_start .. column_end of dst. quantized holds src1 in the type that
// vec_dot takes, column_size bytes each.
static void few_columns_mul_mat(
        const struct ggml_tensor * src0, const char * quantized, size_t column_size, struct ggml_tensor * dst,
        int64_t row_start, int64_t row_end, int64_t column_start, int64_t column_end) {
    static __thread struct few_columns_scales scales;
    for (int64_t first = column_start; first < column_end; first += FEW_COLUMNS_AT_ONCE) {
        const int columns = (int) MIN(FEW_COLUMNS_AT_ONCE, column_end - first);
        const void * y[FEW_COLUMNS_AT_ONCE];
        for (int c = 0; c < columns; c++) {
            y[c] = quantized + (first + c) * column_size;
        }
        few_columns_read_scales(src0->type, columns, src0->ne[0] / FEW_COLUMNS_BLOCK, y, &scales);
        char * out = (char *) dst->data + first * dst->nb[1];
        const size_t stride = dst->nb[1];
        switch (columns) {
            case 1:  few_columns_rows(1, src0, row_start, row_end, y, &scales, out, stride); break;
            case 2:  few_columns_rows(2, src0, row_start, row_end, y, &scales, out, stride); break;
            case 3:  few_columns_rows(3, src0, row_start, row_end, y, &scales, out, stride); break;
            case 4:  few_columns_rows(4, src0, row_start, row_end, y, &scales, out, stride); break;
            case 5:  few_columns_rows(5, src0, row_start, row_end, y, &scales, out, stride); break;
            case 6:  few_columns_rows(6, src0, row_start, row_end, y, &scales, out, stride); break;
            case 7:  few_columns_rows(7, src0, row_start, row_end, y, &scales, out, stride); break;
            default: few_columns_rows(8, src0, row_start, row_end, y, &scales, out, stride); break;
        }
    }
}

#else  // other processors: all stays as it is

enum { FEW_COLUMNS_ONE_CHUNK = 1 };

static bool few_columns_serves(const struct ggml_tensor * src0, const struct ggml_tensor * src1) {
    GGML_UNUSED(src0);
    GGML_UNUSED(src1);
    return false;
}

static bool few_columns_beats_tiles(const struct ggml_tensor * src0, const struct ggml_tensor * src1) {
    return few_columns_serves(src0, src1);
}

static void few_columns_mul_mat(
        const struct ggml_tensor * src0, const char * quantized, size_t column_size, struct ggml_tensor * dst,
        int64_t row_start, int64_t row_end, int64_t column_start, int64_t column_end) {
    GGML_UNUSED(src0);
    GGML_UNUSED(quantized);
    GGML_UNUSED(column_size);
    GGML_UNUSED(dst);
    GGML_UNUSED(row_start);
    GGML_UNUSED(row_end);
    GGML_UNUSED(column_start);
    GGML_UNUSED(column_end);
}

#endif
