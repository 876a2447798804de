// What kernels ask of a lane, a warp or a block beyond plain C++: one function per PTX instruction. With NSA_EMULATED the same
// names are made of fibers on the host, so that kernels run in tests without a card.
#pragma once

#include <cstdint>

#include "nsa/kernels/common/geometry.h"

namespace nsa::kernels {

struct Bf16 {};  // element types by name; in memory both are 16 bits
struct Fp16 {};

struct Pair {
  float x;
  float y;
};

struct Words2 {
  std::uint32_t x;
  std::uint32_t y;
};

struct Words4 {
  std::uint32_t x;
  std::uint32_t y;
  std::uint32_t z;
  std::uint32_t w;
};

}  // namespace nsa::kernels

#if defined(NSA_EMULATED)
#include "emulated_device.h"
#else

#define NSA_DEVICE __device__ __forceinline__
#define NSA_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
#define NSA_PARAMETER const __grid_constant__
// Dynamic shared memory of the block, aligned for swizzled tiles of 1024 bytes.
#define NSA_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#define NSA_UNROLL _Pragma("unroll")
#define NSA_NO_UNROLL _Pragma("unroll 1")

namespace nsa::kernels {

NSA_DEVICE int thread_index() {
  return static_cast<int>(threadIdx.x);
}
NSA_DEVICE int lane_index() {
  return static_cast<int>(threadIdx.x & 31);
}
// The same for all lanes, in a way that the compiler can see.
NSA_DEVICE int warp_index() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
}
NSA_DEVICE int block_x() {
  return static_cast<int>(blockIdx.x);
}
NSA_DEVICE int block_y() {
  return static_cast<int>(blockIdx.y);
}
NSA_DEVICE int block_z() {
  return static_cast<int>(blockIdx.z);
}
NSA_DEVICE void block_sync() {
  __syncthreads();
}
NSA_DEVICE void warp_sync() {
  __syncwarp();
}
// Barrier of `threads` threads, whole warps; ids 1 to 15, 0 is block_sync's.
NSA_DEVICE void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Counts there without waiting.
NSA_DEVICE void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

NSA_DEVICE float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}
NSA_DEVICE float shuffle(float value, int lane) {
  return __shfl_sync(0xffffffffU, value, lane);
}
NSA_DEVICE int shuffle(int value, int lane) {
  return __shfl_sync(0xffffffffU, value, lane);
}
NSA_DEVICE int shuffle_up(int value, int distance) {
  return __shfl_up_sync(0xffffffffU, value, distance);
}
NSA_DEVICE std::uint32_t warp_largest(std::uint32_t value) {
  return __reduce_max_sync(0xffffffffU, value);
}
NSA_DEVICE std::uint32_t warp_smallest(std::uint32_t value) {
  return __reduce_min_sync(0xffffffffU, value);
}
NSA_DEVICE std::uint32_t warp_sum(std::uint32_t value) {
  return __reduce_add_sync(0xffffffffU, value);
}
NSA_DEVICE int bit_count(std::uint32_t bits) {
  return __popc(bits);
}
NSA_DEVICE std::uint32_t warp_ballot(bool value) {
  return __ballot_sync(0xffffffffU, value);
}

NSA_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
NSA_DEVICE float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// The larger one; NaN where one is NaN.
NSA_DEVICE float largest_or_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
NSA_DEVICE float rsqrt_float(float x) {
  return rsqrtf(x);
}
NSA_DEVICE float log2_exact(float x) {
  return log2f(x);
}
// Within 2^-22, absolutely for results around 0, relatively elsewhere.
NSA_DEVICE float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Bytes 0-3 are a's, 4-7 b's; each digit of the selector takes one.
NSA_DEVICE std::uint32_t permute(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  return __byte_perm(a, b, selector);
}
NSA_DEVICE float bits_to_float(std::uint32_t bits) {
  return __uint_as_float(bits);
}
NSA_DEVICE std::uint32_t float_to_bits(float value) {
  return __float_as_uint(value);
}
NSA_DEVICE float minus_infinity() {
  return __uint_as_float(0xff800000U);
}

NSA_DEVICE std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes from global to shared memory without waiting; zeros where `valid` is false (then nothing is read).
NSA_DEVICE void copy16(std::uint32_t to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
NSA_DEVICE void copy8(std::uint32_t to, const void* from, bool valid) {
  const int bytes = valid ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
NSA_DEVICE void copy4(std::uint32_t to, const void* from, bool valid) {
  const int bytes = valid ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
NSA_DEVICE void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most kLeft of this thread's groups are under way.
template <int kLeft>
NSA_DEVICE void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8.
NSA_DEVICE void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
NSA_DEVICE void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

NSA_DEVICE void store_shared(std::uint32_t address, std::uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
NSA_DEVICE std::uint32_t load_shared(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
NSA_DEVICE Words4 load_shared16(std::uint32_t address) {
  Words4 v;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
NSA_DEVICE float load_shared_float(std::uint32_t address) {
  return bits_to_float(load_shared(address));
}
NSA_DEVICE Pair load_shared_pair(std::uint32_t address) {
  Pair v;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}
NSA_DEVICE Words4 load_global16(const void* from) {
  const uint4 v = *static_cast<const uint4*>(from);
  return {v.x, v.y, v.z, v.w};
}
NSA_DEVICE void store_global16(void* to, const Words4& v) {
  *static_cast<uint4*>(to) = make_uint4(v.x, v.y, v.z, v.w);
}

// Of what is read or written once: not worth keeping in a cache.
NSA_DEVICE Words4 load_global16_once(const void* from) {
  const uint4 v = __ldcs(static_cast<const uint4*>(from));
  return {v.x, v.y, v.z, v.w};
}
NSA_DEVICE void store_global16_once(void* to, const Words4& v) {
  __stcs(static_cast<uint4*>(to), make_uint4(v.x, v.y, v.z, v.w));
}
NSA_DEVICE Words2 load_global8_once(const void* from) {
  const uint2 v = __ldcs(static_cast<const uint2*>(from));
  return {v.x, v.y};
}
NSA_DEVICE void store_global8_once(void* to, const Words2& v) {
  __stcs(static_cast<uint2*>(to), make_uint2(v.x, v.y));
}
NSA_DEVICE std::uint32_t load_global4_once(const void* from) {
  return __ldcs(static_cast<const unsigned*>(from));
}
NSA_DEVICE void store_global4_once(void* to, std::uint32_t v) {
  __stcs(static_cast<unsigned*>(to), v);
}

NSA_DEVICE void store_pair(float* to, float x, float y) {
  *reinterpret_cast<float2*>(to) = make_float2(x, y);
}
// Past the caches of one multiprocessor: another one may have written it in this launch.
NSA_DEVICE Pair load_pair_coherent(const float* from) {
  const float2 v = __ldcg(reinterpret_cast<const float2*>(from));
  return {v.x, v.y};
}

NSA_DEVICE void store_shared_float(std::uint32_t address, float value) {
  store_shared(address, float_to_bits(value));
}

// c += a b for one m16n8k16 tile.
template <class E>
NSA_DEVICE void multiply_tile(float (&c)[4],
                              const std::uint32_t (&a)[4],
                              std::uint32_t b0,
                              std::uint32_t b1);
template <>
NSA_DEVICE void multiply_tile<Bf16>(float (&c)[4],
                                    const std::uint32_t (&a)[4],
                                    std::uint32_t b0,
                                    std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
NSA_DEVICE void multiply_tile<Fp16>(float (&c)[4],
                                    const std::uint32_t (&a)[4],
                                    std::uint32_t b0,
                                    std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two floats, rounded to nearest even, the first in the lower half.
template <class E>
NSA_DEVICE std::uint32_t pack(float low, float high);
template <>
NSA_DEVICE std::uint32_t pack<Bf16>(float low, float high) {
  std::uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
template <>
NSA_DEVICE std::uint32_t pack<Fp16>(float low, float high) {
  std::uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
template <class E>
NSA_DEVICE Pair unpack(std::uint32_t v);
template <>
NSA_DEVICE Pair unpack<Bf16>(std::uint32_t v) {
  return {__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000U)};
}
template <>
NSA_DEVICE Pair unpack<Fp16>(std::uint32_t v) {
  Pair p;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(p.x), "=f"(p.y)
      : "r"(v));
  return p;
}

// Turns of an ordered sum. One thread waits for the turn, then the block synchronises and reads what earlier turns wrote;
// after its own writes every thread calls memory_fence, the block synchronises, and one thread passes the turn on.
NSA_DEVICE void wait_turn(const int* done, int turn) {
  int seen;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(done) : "memory");
  } while (seen < turn);
}
NSA_DEVICE void memory_fence() {
  __threadfence();
}
NSA_DEVICE void pass_turn(int* done, int turn) {
  __threadfence();
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(done), "r"(turn + 1) : "memory");
}
NSA_DEVICE int take_ticket(int* counter) {
  return atomicAdd(counter, 1);
}
// In shared memory; integers, so that the order does not matter.
NSA_DEVICE void count_one(std::uint32_t address) {
  asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(address) : "memory");
}

}  // namespace nsa::kernels
#endif

namespace nsa::kernels {

template <class E>
NSA_DEVICE float read_element(const char* from) {
  return unpack<E>(*reinterpret_cast<const std::uint16_t*>(from)).x;
}

}  // namespace nsa::kernels
