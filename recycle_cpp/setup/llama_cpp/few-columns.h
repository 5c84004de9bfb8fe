// Products of a weight matrix with a few columns at once, each block of weights unpacked once for all of them.
//
// Added to llama.cpp by recycle_cpp's set-up; included by ggml-cpu.c only.
//
// Verifying a draft tree evaluates 2 to 16 tokens at once. ggml multiplies them one by one (vec_dot) or in tiles of
// 4 x 4 (llamafile_sgemm), and unpacks every block of weights again for each column or tile. On x86 that unpacking costs
// more than the product itself. Here a block is unpacked once for up to 8 columns; with AVX-512, two columns share a
// register.
//
// Results are bit-identical to those of vec_dot in the same build: all that happens to one column happens in the order
// and the precision of ggml_vec_dot_{q4_1_q8_1,q5_0_q8_0,q8_0_q8_0,q6_K_q8_K} (arch/x86/quants.c): block after block,
// 8 partial sums, then the same horizontal sum. Sums of products of bytes are integers, thus exact however they are
// formed. Whoever changes one of those functions has to change its sibling here.
//
// Unpacking and horizontal sums are ggml's, from arch/x86/quants.c:
//   MIT License, Copyright (c) 2023-2026 The ggml authors (the text is in llama.cpp's file LICENSE)

#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && defined(__GNUC__)

#include <immintrin.h>

#define FEW_COLUMNS_INLINE static inline __attribute__((always_inline))

enum {
    FEW_COLUMNS_AT_ONCE   =    8,  // columns that share an unpacked block: so many partial sums fit the registers
    FEW_COLUMNS_BLOCK     =   32,  // weights that are unpacked at once
    FEW_COLUMNS_BLOCKS    = 1024,  // blocks in a row of weights, at most: bounds what is kept per thread
    FEW_COLUMNS_ONE_CHUNK =   32,  // columns, at most, of any product that stay together when work is dealt out
};

// Up to 8 quantized columns, laid out so that what belongs to one block of weights lies side by side.
struct few_columns_packed {
    int8_t  q[FEW_COLUMNS_BLOCKS][FEW_COLUMNS_AT_ONCE][FEW_COLUMNS_BLOCK];
    float   d[FEW_COLUMNS_BLOCKS][FEW_COLUMNS_AT_ONCE];                // scales of blocks, or of block_q8_K
    float   s[FEW_COLUMNS_BLOCKS][FEW_COLUMNS_AT_ONCE];                // block_q8_1: d times the sum of the block
    int16_t bsums[FEW_COLUMNS_BLOCKS / 8][FEW_COLUMNS_AT_ONCE][16];    // block_q8_K: sums of 16 values each
};

FEW_COLUMNS_INLINE float few_columns_sum_lanes(__m256 x) {
    __m128 sum = _mm256_extractf128_ps(x, 1);
    sum = _mm_add_ps(sum, _mm256_castps256_ps128(x));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    sum = _mm_add_ss(sum, _mm_movehdup_ps(sum));
    return _mm_cvtss_f32(sum);
}

// A group of columns shares a register: two with AVX-512, one without. Group g begins with column g * FEW_COLUMNS_GROUP.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)

#define FEW_COLUMNS_GROUP 2
enum { FEW_COLUMNS_UNTIL = INT32_MAX };  // columns, at most, where this is faster than llamafile_sgemm: always
typedef __m512  few_columns_floats;
typedef __m512i few_columns_ints;

FEW_COLUMNS_INLINE few_columns_floats few_columns_zero_floats(void) { return _mm512_setzero_ps(); }
FEW_COLUMNS_INLINE few_columns_ints   few_columns_zero_ints(void)   { return _mm512_setzero_si512(); }
FEW_COLUMNS_INLINE few_columns_ints   few_columns_repeat(__m256i x) { return _mm512_broadcast_i64x4(x); }
FEW_COLUMNS_INLINE few_columns_ints   few_columns_load(const void * p) { return _mm512_loadu_si512(p); }

// 32 products per column of unsigned and signed bytes, summed in fours.
FEW_COLUMNS_INLINE few_columns_ints few_columns_dot_unsigned(few_columns_ints u, few_columns_ints s) {
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), u, s);
}

FEW_COLUMNS_INLINE few_columns_ints few_columns_dot_signed(few_columns_ints x, few_columns_ints y) {
    const __m512i signed_y = _mm512_mask_sub_epi8(y, _mm512_movepi8_mask(x), _mm512_setzero_si512(), y);
    return few_columns_dot_unsigned(_mm512_abs_epi8(x), signed_y);
}

// The same, each sum of two products times a 16-bit factor before the next two are added.
FEW_COLUMNS_INLINE few_columns_ints few_columns_dot_scaled(few_columns_ints u, few_columns_ints s, few_columns_ints factors) {
    return _mm512_madd_epi16(factors, _mm512_maddubs_epi16(u, s));
}

FEW_COLUMNS_INLINE few_columns_ints few_columns_add(few_columns_ints a, few_columns_ints b) {
    return _mm512_add_epi32(a, b);
}

// a minus 32 times the sums of products of two 16-bit pairs
FEW_COLUMNS_INLINE few_columns_ints few_columns_less_32(few_columns_ints a, few_columns_ints x, few_columns_ints y) {
    return _mm512_sub_epi32(a, _mm512_slli_epi32(_mm512_madd_epi16(x, y), 5));
}

// acc + dx * d of the group's columns * dot
FEW_COLUMNS_INLINE few_columns_floats few_columns_add_scaled(
        few_columns_floats acc, __m256 dx, const float * d, const int group, few_columns_ints dot) {
    const __m512i lanes = _mm512_add_epi32(
            _mm512_set1_epi32(2 * group), _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512 scales = _mm512_castps256_ps512(_mm256_mul_ps(dx, _mm256_loadu_ps(d)));
    return _mm512_fmadd_ps(_mm512_permutexvar_ps(lanes, scales), _mm512_cvtepi32_ps(dot), acc);
}

FEW_COLUMNS_INLINE void few_columns_store(float * sums, const int group, few_columns_floats acc) {
    sums[2 * group]     = few_columns_sum_lanes(_mm512_castps512_ps256(acc));
    sums[2 * group + 1] = few_columns_sum_lanes(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(acc), 1)));
}

#else

#define FEW_COLUMNS_GROUP 1
enum { FEW_COLUMNS_UNTIL = 32 };  // columns, at most, where this is faster than llamafile_sgemm
typedef __m256  few_columns_floats;
typedef __m256i few_columns_ints;

FEW_COLUMNS_INLINE few_columns_floats few_columns_zero_floats(void) { return _mm256_setzero_ps(); }
FEW_COLUMNS_INLINE few_columns_ints   few_columns_zero_ints(void)   { return _mm256_setzero_si256(); }
FEW_COLUMNS_INLINE few_columns_ints   few_columns_repeat(__m256i x) { return x; }
FEW_COLUMNS_INLINE few_columns_ints   few_columns_load(const void * p) { return _mm256_loadu_si256((const __m256i *) p); }

// 32 products of unsigned and signed bytes, summed in fours. No pair reaches the 16-bit limit: |u| <= 128, |s| <= 127.
FEW_COLUMNS_INLINE few_columns_ints few_columns_dot_unsigned(few_columns_ints u, few_columns_ints s) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), u, s);
#elif defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), u, s);
#else
    return _mm256_madd_epi16(_mm256_set1_epi16(1), _mm256_maddubs_epi16(u, s));
#endif
}

FEW_COLUMNS_INLINE few_columns_ints few_columns_dot_signed(few_columns_ints x, few_columns_ints y) {
    return few_columns_dot_unsigned(_mm256_sign_epi8(x, x), _mm256_sign_epi8(y, x));
}

// The same, each sum of two products times a 16-bit factor before the next two are added.
FEW_COLUMNS_INLINE few_columns_ints few_columns_dot_scaled(few_columns_ints u, few_columns_ints s, few_columns_ints factors) {
    return _mm256_madd_epi16(factors, _mm256_maddubs_epi16(u, s));
}

FEW_COLUMNS_INLINE few_columns_ints few_columns_add(few_columns_ints a, few_columns_ints b) {
    return _mm256_add_epi32(a, b);
}

// a minus 32 times the sums of products of two 16-bit pairs
FEW_COLUMNS_INLINE few_columns_ints few_columns_less_32(few_columns_ints a, few_columns_ints x, few_columns_ints y) {
    return _mm256_sub_epi32(a, _mm256_slli_epi32(_mm256_madd_epi16(x, y), 5));
}

// acc + dx * d of the group's column * dot
FEW_COLUMNS_INLINE few_columns_floats few_columns_add_scaled(
        few_columns_floats acc, __m256 dx, const float * d, const int group, few_columns_ints dot) {
    return _mm256_fmadd_ps(_mm256_mul_ps(dx, _mm256_set1_ps(d[group])), _mm256_cvtepi32_ps(dot), acc);
}

FEW_COLUMNS_INLINE void few_columns_store(float * sums, const int group, few_columns_floats acc) {
    sums[group] = few_columns_sum_lanes(acc);
}

#endif

FEW_COLUMNS_INLINE __m256i few_columns_unpack_nibbles(const uint8_t * packed) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *) packed);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(0xF));
}

// 32 bits to 32 bytes, 0 or 0xFF
FEW_COLUMNS_INLINE __m256i few_columns_unpack_bits(const uint8_t * packed) {
    uint32_t bits;
    memcpy(&bits, packed, sizeof(bits));
    const __m256i spread = _mm256_set_epi64x(
            0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0x0000000000000000);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int) bits), spread);
    const __m256i others = _mm256_set1_epi64x(0x7fbfdfeff7fbfdfe);
    return _mm256_cmpeq_epi8(_mm256_or_si256(bytes, others), _mm256_set1_epi64x(-1));
}

FEW_COLUMNS_INLINE __m256i few_columns_unpack_q5_0(const block_q5_0 * x) {
    const __m256i high = _mm256_andnot_si256(few_columns_unpack_bits(x->qh), _mm256_set1_epi8((char) 0xF0));
    return _mm256_or_si256(few_columns_unpack_nibbles(x->qs), high);
}

// Block number `part` of the 8 of a block_q6_K: 32 values of 0 to 63.
FEW_COLUMNS_INLINE __m256i few_columns_unpack_q6_K(const block_q6_K * x, const int part) {
    const int half = part / 4, quarter = part % 4;
    const __m256i low  = _mm256_loadu_si256((const __m256i *) (x->ql + 64 * half + 32 * (quarter % 2)));
    const __m256i high = _mm256_loadu_si256((const __m256i *) (x->qh + 32 * half));
    const __m256i nibbles = _mm256_and_si256(quarter < 2 ? low : _mm256_srli_epi16(low, 4), _mm256_set1_epi8(15));
    const __m256i pairs = _mm256_and_si256(_mm256_srli_epi16(high, 2 * quarter), _mm256_set1_epi8(3));
    return _mm256_or_si256(nibbles, _mm256_slli_epi16(pairs, 4));
}

// The factors of block number `part`: scale 2 * part for its first 16 values, the next one for the others.
FEW_COLUMNS_INLINE __m256i few_columns_factors_q6_K(const block_q6_K * x, const int part) {
    const __m128i scales = _mm_loadu_si128((const __m128i *) x->scales);
    const __m128i lanes = _mm_set_epi64x(0x0101010101010101 * (2 * part + 1), 0x0101010101010101 * (2 * part));
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(scales, lanes));
}

FEW_COLUMNS_INLINE void few_columns_dot_q5_0_q8_0(
        const int groups, int64_t n_blocks, const void * x, const struct few_columns_packed * y, const bool is_q5_0,
        float * sums) {
    few_columns_floats acc[FEW_COLUMNS_AT_ONCE];
    for (int g = 0; g < groups; g++) {
        acc[g] = few_columns_zero_floats();
    }
    for (int64_t ib = 0; ib < n_blocks; ib++) {
        const block_q5_0 * q5_0 = (const block_q5_0 *) x + ib;
        const block_q8_0 * q8_0 = (const block_q8_0 *) x + ib;
        const few_columns_ints weights = few_columns_repeat(
                is_q5_0 ? few_columns_unpack_q5_0(q5_0) : _mm256_loadu_si256((const __m256i *) q8_0->qs));
        const __m256 dx = _mm256_set1_ps(GGML_CPU_COMPUTE_FP16_TO_FP32(is_q5_0 ? q5_0->d : q8_0->d));
#pragma GCC unroll 8
        for (int g = 0; g < groups; g++) {
            const few_columns_ints qy = few_columns_load(y->q[ib][g * FEW_COLUMNS_GROUP]);
            acc[g] = few_columns_add_scaled(acc[g], dx, y->d[ib], g, few_columns_dot_signed(weights, qy));
        }
    }
    for (int g = 0; g < groups; g++) {
        few_columns_store(sums, g, acc[g]);
    }
}

FEW_COLUMNS_INLINE void few_columns_dot_q4_1(
        const int groups, int64_t n_blocks, const block_q4_1 * x, const struct few_columns_packed * y, float * sums) {
    few_columns_floats acc[FEW_COLUMNS_AT_ONCE];
    for (int g = 0; g < groups; g++) {
        acc[g] = few_columns_zero_floats();
    }
    __m256 min_sums = _mm256_setzero_ps();  // lane c belongs to column c
    for (int64_t ib = 0; ib < n_blocks; ib++) {
        // Written with operators, as vec_dot's scalar line is: the compiler fuses both or neither.
        min_sums += _mm256_set1_ps(GGML_CPU_COMPUTE_FP16_TO_FP32(x[ib].m)) * _mm256_loadu_ps(y->s[ib]);

        const few_columns_ints weights = few_columns_repeat(few_columns_unpack_nibbles(x[ib].qs));
        const __m256 dx = _mm256_set1_ps(GGML_CPU_COMPUTE_FP16_TO_FP32(x[ib].d));
#pragma GCC unroll 8
        for (int g = 0; g < groups; g++) {
            const few_columns_ints qy = few_columns_load(y->q[ib][g * FEW_COLUMNS_GROUP]);
            acc[g] = few_columns_add_scaled(acc[g], dx, y->d[ib], g, few_columns_dot_unsigned(weights, qy));
        }
    }
    float min_sum[FEW_COLUMNS_AT_ONCE];
    _mm256_storeu_ps(min_sum, min_sums);
    for (int g = 0; g < groups; g++) {
        few_columns_store(sums, g, acc[g]);
    }
    for (int c = 0; c < groups * FEW_COLUMNS_GROUP; c++) {
        sums[c] += min_sum[c];
    }
}

FEW_COLUMNS_INLINE void few_columns_dot_q6_K(
        const int groups, int64_t n_blocks, const block_q6_K * x, const struct few_columns_packed * y, float * sums) {
    few_columns_floats acc[FEW_COLUMNS_AT_ONCE];
    for (int g = 0; g < groups; g++) {
        acc[g] = few_columns_zero_floats();
    }
    for (int64_t ib = 0; ib < n_blocks / 8; ib++) {
        few_columns_ints dots[FEW_COLUMNS_AT_ONCE];
        for (int g = 0; g < groups; g++) {
            dots[g] = few_columns_zero_ints();
        }
#pragma GCC unroll 8
        for (int part = 0; part < 8; part++) {
            const few_columns_ints weights = few_columns_repeat(few_columns_unpack_q6_K(&x[ib], part));
            const few_columns_ints factors = few_columns_repeat(few_columns_factors_q6_K(&x[ib], part));
#pragma GCC unroll 8
            for (int g = 0; g < groups; g++) {
                const few_columns_ints qy = few_columns_load(y->q[8 * ib + part][g * FEW_COLUMNS_GROUP]);
                dots[g] = few_columns_add(dots[g], few_columns_dot_scaled(weights, qy, factors));
            }
        }
        // The weights are 32 less than what was unpacked.
        const few_columns_ints scales = few_columns_repeat(
                _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) x[ib].scales)));
        const __m256 dx = _mm256_set1_ps(GGML_CPU_COMPUTE_FP16_TO_FP32(x[ib].d));
#pragma GCC unroll 8
        for (int g = 0; g < groups; g++) {
            const few_columns_ints bsums = few_columns_load(y->bsums[ib][g * FEW_COLUMNS_GROUP]);
            const few_columns_ints dot = few_columns_less_32(dots[g], bsums, scales);
            acc[g] = few_columns_add_scaled(acc[g], dx, y->d[ib], g, dot);
        }
    }
    for (int g = 0; g < groups; g++) {
        few_columns_store(sums, g, acc[g]);
    }
}

// Lays column c, as vec_dot takes it for weights of this type, into y.
static void few_columns_pack(
        enum ggml_type type, int64_t n_blocks, const void * column, int c, struct few_columns_packed * y) {
    for (int64_t ib = 0; ib < n_blocks; ib++) {
        if (type == GGML_TYPE_Q4_1) {
            const block_q8_1 * block = (const block_q8_1 *) column + ib;
            memcpy(y->q[ib][c], block->qs, FEW_COLUMNS_BLOCK);
            y->d[ib][c] = GGML_CPU_COMPUTE_FP16_TO_FP32(block->d);
            y->s[ib][c] = GGML_CPU_COMPUTE_FP16_TO_FP32(block->s);
        } else if (type == GGML_TYPE_Q6_K) {
            const block_q8_K * block = (const block_q8_K *) column + ib / 8;
            memcpy(y->q[ib][c], block->qs + ib % 8 * FEW_COLUMNS_BLOCK, FEW_COLUMNS_BLOCK);
            memcpy(y->bsums[ib / 8][c], block->bsums, sizeof(block->bsums));
            y->d[ib / 8][c] = block->d;
        } else {
            const block_q8_0 * block = (const block_q8_0 *) column + ib;
            memcpy(y->q[ib][c], block->qs, FEW_COLUMNS_BLOCK);
            y->d[ib][c] = GGML_CPU_COMPUTE_FP16_TO_FP32(block->d);
        }
    }
}

// Multiplies rows row_start .. row_end of src0 with the columns in y; out is where row 0 of the first one's results is.
// Called with a constant number of groups: the loops over them must unroll for the sums to stay in registers.
FEW_COLUMNS_INLINE void few_columns_rows(
        const int groups, int columns, const struct ggml_tensor * src0, int64_t row_start, int64_t row_end,
        const struct few_columns_packed * y, char * out, size_t out_stride) {
    const int64_t n_blocks = src0->ne[0] / FEW_COLUMNS_BLOCK;
    for (int64_t row = row_start; row < row_end; row++) {
        const void * x = (const char *) src0->data + row * src0->nb[1];
        float sums[FEW_COLUMNS_AT_ONCE];
        switch (src0->type) {
            case GGML_TYPE_Q4_1: few_columns_dot_q4_1(groups, n_blocks, x, y, sums);             break;
            case GGML_TYPE_Q6_K: few_columns_dot_q6_K(groups, n_blocks, x, y, sums);             break;
            case GGML_TYPE_Q5_0: few_columns_dot_q5_0_q8_0(groups, n_blocks, x, y, true, sums);  break;
            default:             few_columns_dot_q5_0_q8_0(groups, n_blocks, x, y, false, sums); break;
        }
        for (int c = 0; c < columns; c++) {
            ((float *) (out + c * out_stride))[row] = sums[c];
        }
    }
}

// Whether few_columns_mul_mat computes this product, told by types and shapes alone, so that all threads agree.
static bool few_columns_serves(const struct ggml_tensor * src0, const struct ggml_tensor * src1) {
    switch (src0->type) {
        case GGML_TYPE_Q4_1:
        case GGML_TYPE_Q5_0:
        case GGML_TYPE_Q8_0:
        case GGML_TYPE_Q6_K:
            return src1->type == GGML_TYPE_F32 && src1->ne[1] > 1 &&
                   src0->ne[0] <= FEW_COLUMNS_BLOCKS * FEW_COLUMNS_BLOCK &&
                   src0->ne[2] * src0->ne[3] == 1 && src1->ne[2] * src1->ne[3] == 1;
        default:
            return false;
    }
}

// Whether these columns are so few that few_columns_mul_mat is faster than llamafile_sgemm.
static inline bool few_columns_beats_tiles(const struct ggml_tensor * src0, const struct ggml_tensor * src1) {
    return src1->ne[1] <= FEW_COLUMNS_UNTIL && few_columns_serves(src0, src1);
}

// Computes rows row_start .. row_end and columns column_start .. column_end of dst. quantized holds src1 in the type
// that vec_dot takes, column_size bytes each.
static void few_columns_mul_mat(
        const struct ggml_tensor * src0, const char * quantized, size_t column_size, struct ggml_tensor * dst,
        int64_t row_start, int64_t row_end, int64_t column_start, int64_t column_end) {
    static __thread struct few_columns_packed y __attribute__((aligned(64)));  // no load crosses a cache line
    for (int64_t first = column_start; first < column_end; first += FEW_COLUMNS_AT_ONCE) {
        const int columns = (int) MIN(FEW_COLUMNS_AT_ONCE, column_end - first);
        for (int c = 0; c < columns; c++) {
            few_columns_pack(
                    src0->type, src0->ne[0] / FEW_COLUMNS_BLOCK, quantized + (first + c) * column_size, c, &y);
        }
        char * out = (char *) dst->data + first * dst->nb[1];
        const size_t stride = dst->nb[1];
        switch ((columns + FEW_COLUMNS_GROUP - 1) / FEW_COLUMNS_GROUP) {
            case 1: few_columns_rows(1, columns, src0, row_start, row_end, &y, out, stride); break;
            case 2: few_columns_rows(2, columns, src0, row_start, row_end, &y, out, stride); break;
            case 3: few_columns_rows(3, columns, src0, row_start, row_end, &y, out, stride); break;
            case 4: few_columns_rows(4, columns, src0, row_start, row_end, &y, out, stride); break;
#if FEW_COLUMNS_GROUP == 1
            case 5: few_columns_rows(5, columns, src0, row_start, row_end, &y, out, stride); break;
            case 6: few_columns_rows(6, columns, src0, row_start, row_end, &y, out, stride); break;
            case 7: few_columns_rows(7, columns, src0, row_start, row_end, &y, out, stride); break;
            case 8: few_columns_rows(8, columns, src0, row_start, row_end, &y, out, stride); break;
#endif
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

static inline bool few_columns_beats_tiles(const struct ggml_tensor * src0, const struct ggml_tensor * src1) {
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
