"""What real machines and real builds print, cut to what matters."""

from recycle_cpp.setup.machine import Compiler, Machine

XEON_CPUINFO = """\
processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 207
model name	: Intel(R) Xeon(R) Processor
stepping	: 2
cpu MHz		: 2100.000
fpu		: yes
wp		: yes
flags		: fpu vme sse sse2 ht fma avx f16c avx2 bmi2 avx512f avx512dq avx512bw avx512vl avx_vnni \
avx512_bf16 avx512vbmi avx512_vnni amx_bf16 avx512_fp16 amx_tile amx_int8 flush_l1d arch_capabilities
bugs		: spectre_v1 spectre_v2 spec_store_bypass swapgs taa eibrs_pbrsb bhi ibpb_no_ret
bogomips	: 4200.00

processor	: 1
vendor_id	: GenuineIntel
flags		: fpu vme sse sse2 ht fma avx f16c avx2
"""

ARM_CPUINFO = """\
processor	: 0
BogoMIPS	: 108.00
Features	: fp asimd evtstrm crc32 cpuid asimdrdm asimddp
CPU implementer	: 0x41
CPU architecture: 8
"""

APPLE_SYSCTL = """\
machdep.cpu.brand_string: Apple M2
hw.optional.arm.FEAT_BF16: 1
hw.optional.arm.FEAT_DotProd: 1
hw.optional.arm.FEAT_SME: 0
hw.optional.floatingpoint: 1
"""

GCC_BANNER = """\
g++ (Debian 12.2.0-14+deb12u1) 12.2.0
Copyright (C) 2022 Free Software Foundation, Inc.
This is free software; see the source for copying conditions.  There is NO
warranty; not even for MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.
"""

CLANG_BANNER = """\
Debian clang version 14.0.6
Target: x86_64-pc-linux-gnu
Thread model: posix
InstalledDir: /usr/bin
"""

APPLE_CLANG_BANNER = """\
Apple clang version 15.0.0 (clang-1500.3.9.4)
Target: arm64-apple-darwin23.5.0
Thread model: posix
InstalledDir: /Library/Developer/CommandLineTools/usr/bin
"""

NVCC_BANNER = """\
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""

NVIDIA_SMI_LIST = """\
GPU 0: NVIDIA H200 (UUID: GPU-00000000-0000-0000-0000-000000000000)
GPU 1: NVIDIA H200 (UUID: GPU-11111111-1111-1111-1111-111111111111)
"""

BUILD_LOG = """\
Building wheels for collected packages: llama_cpp_python
  Building wheel for llama_cpp_python (pyproject.toml): started
  Running command Building wheel for llama_cpp_python (pyproject.toml)
  *** scikit-build-core 1.1.2 using CMake 3.25.1 (wheel)
  *** Configuring CMake...
  -- The CXX compiler identification is GNU 12.2.0
  -- Warning: ccache not found - consider installing it for faster compilation or disable this warning
  -- Adding CPU backend variant ggml-cpu: -march=native
  *** Building project with Ninja...
  [1/140] /usr/bin/g++ -DGGML_BUILD -fno-tree-dse -fno-dse -O3 -DNDEBUG -fPIC -c ggml.cpp
  [2/140] /usr/bin/gcc -DGGML_BUILD -O3 -Werror=implicit-int -Wall -Wextra -c ggml-alloc.c
  [14/140] /usr/bin/g++ -DGGML_BACKEND_BUILD -O3 -march=native -c mmq.cpp
  [70/140] /usr/bin/g++ -DLLAMA_BUILD -O3 -c llama-model.cpp
  [140/140] /usr/bin/cmake -E cmake_symlink_library bin/libllama-common.so.0.5.0
  *** Making wheel...
"""

FAILED_BUILD_LOG = """\
  -- Warning: ccache not found - consider installing it for faster compilation or disable this warning
  WARNING: Location 'file:///mirror/simple/pathspec/' is ignored: it is neither a file nor a directory.
  [1/2] /usr/bin/g++ -Dx_EXPORTS  -O3 -DNDEBUG -fPIC -Werror=vla -o a.cpp.o -c a.cpp
  FAILED: CMakeFiles/x.dir/a.cpp.o
  /usr/bin/g++ -Dx_EXPORTS  -O3 -DNDEBUG -fPIC -Werror=vla -o a.cpp.o -c a.cpp
  a.cpp: In function 'int f()':
  a.cpp:1:18: error: 'g' was not declared in this scope
      1 | int f() { return g(); }
        |                  ^
  ninja: build stopped: subcommand failed.

  *** CMake build failed
  error: subprocess-exited-with-error

  note: This error originates from a subprocess, and is likely not a problem with pip.
  Building wheel for x (pyproject.toml): finished with status 'error'
  ERROR: Failed building wheel for x
ERROR: Failed to build one or more wheels
"""

UNREACHED_INDEX_LOG = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('Failed to establish a new \
connection: [Errno 111] Connection refused')': /simple/llama-cpp-python/
ERROR: Could not find a version that satisfies the requirement llama-cpp-python==0.3.36 (from versions: none)
ERROR: No matching distribution found for llama-cpp-python==0.3.36
"""

SYSTEM_INFO = "CPU : SSE3 = 1 | AVX2 = 1 | FMA = 0 | AMX_INT8 = 1 | OPENMP = 1 | REPACK = 1 |"

GCC = Compiler("g++", "GCC (Debian 12.2.0-14+deb12u1) 12.2.0", is_gcc=True)
CLANG = Compiler("clang++", "Debian clang version 14.0.6", is_gcc=False)

XEON = Machine(
    system="Linux",
    architecture="x86_64",
    cpu_flags=("amx_int8", "amx_tile", "avx2", "avx512f"),
    cc=GCC,
    cxx=GCC,
    nvcc=None,
    cuda_release=None,
    gpus=(),
)
