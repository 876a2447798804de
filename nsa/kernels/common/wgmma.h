// Products of common/matrix.h by sm_90a's wgmma: the four warps of a group issue one instruction together; it reads its right
// operand, and a left one that is not in registers, from shared memory by itself and asynchronously. Products run between
// begin and wait, which name all registers that they read or write: the compiler does not know of the time between.
#pragma once

#include "nsa/kernels/common/matrix.h"

namespace nsa::kernels {

// Registers whose values do not move over this place, in either direction.
template <int kRows>
NSA_DEVICE void pin(float (&x)[kRows][4]) {
  NSA_UNROLL
  for (int j = 0; j < kRows; ++j) {
    NSA_UNROLL
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(x[j][i])::"memory");
  }
}
template <int kRows>
NSA_DEVICE void pin(std::uint32_t (&x)[kRows][4]) {
  NSA_UNROLL
  for (int j = 0; j < kRows; ++j) {
    NSA_UNROLL
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(x[j][i])::"memory");
  }
}

// One instruction: acc[kAt ..] (+)= a b^T, 64 by kColumns, depth 16; kAdd: to what acc holds, otherwise in its place. A left
// operand is four registers or, as the right one, a descriptor; kLeftMn, kRightMn: 1 for Major::mn.
#define NSA_ACC4(j) "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
#define NSA_ACC16(j) NSA_ACC4(j), NSA_ACC4((j) + 1), NSA_ACC4((j) + 2), NSA_ACC4((j) + 3)
#define NSA_LIST16 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NSA_LIST32 NSA_LIST16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NSA_WGMMA(shape, type) "wgmma.mma_async.sync.aligned." shape "k16.f32." type "." type " "
#define NSA_BOTH_SHARED(type, shape, list, a, b, add, left, right, ...)                     \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add ", 0;\n" NSA_WGMMA(shape, type) list \
               "}, " a ", " b ", p, 1, 1, " left ", " right ";\n}\n"                        \
               : __VA_ARGS__                                                                \
               : "l"(left_tile), "l"(right_tile), "n"(kAdd), "n"(kLeftMn), "n"(kRightMn))
#define NSA_LEFT_HELD(type, shape, list, a, b, add, right, ...)                             \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add ", 0;\n" NSA_WGMMA(shape, type) list \
               "}, {" a "}, " b ", p, 1, 1, " right ";\n}\n"                                \
               : __VA_ARGS__                                                                \
               : "r"(held[0]),                                                              \
                 "r"(held[1]),                                                              \
                 "r"(held[2]),                                                              \
                 "r"(held[3]),                                                              \
                 "l"(right_tile),                                                           \
                 "n"(kAdd),                                                                 \
                 "n"(kRightMn))

template <class E>
struct WgmmaTile;

#define NSA_WGMMA_TILE(E, type)                                                                  \
  template <>                                                                                    \
  struct WgmmaTile<E> {                                                                          \
    template <int kColumns, int kAt, int kAdd, int kLeftMn, int kRightMn, int kRows>             \
    NSA_DEVICE static void shared(float (&acc)[kRows][4],                                        \
                                  std::uint64_t left_tile,                                       \
                                  std::uint64_t right_tile) {                                    \
      if constexpr (kColumns == 64) {                                                            \
        NSA_BOTH_SHARED(type,                                                                    \
                        "m64n64",                                                                \
                        NSA_LIST32,                                                              \
                        "%32",                                                                   \
                        "%33",                                                                   \
                        "%34",                                                                   \
                        "%35",                                                                   \
                        "%36",                                                                   \
                        NSA_ACC16(kAt),                                                          \
                        NSA_ACC16(kAt + 4));                                                     \
      } else {                                                                                   \
        NSA_BOTH_SHARED(                                                                         \
            type, "m64n32", NSA_LIST16, "%16", "%17", "%18", "%19", "%20", NSA_ACC16(kAt));      \
      }                                                                                          \
    }                                                                                            \
    template <int kColumns, int kAt, int kAdd, int kRightMn, int kRows>                          \
    NSA_DEVICE static void held(float (&acc)[kRows][4],                                          \
                                const std::uint32_t (&held)[4],                                  \
                                std::uint64_t right_tile) {                                      \
      if constexpr (kColumns == 64) {                                                            \
        NSA_LEFT_HELD(type,                                                                      \
                      "m64n64",                                                                  \
                      NSA_LIST32,                                                                \
                      "%32,%33,%34,%35",                                                         \
                      "%36",                                                                     \
                      "%37",                                                                     \
                      "%38",                                                                     \
                      NSA_ACC16(kAt),                                                            \
                      NSA_ACC16(kAt + 4));                                                       \
      } else {                                                                                   \
        NSA_LEFT_HELD(                                                                           \
            type, "m64n32", NSA_LIST16, "%16,%17,%18,%19", "%20", "%21", "%22", NSA_ACC16(kAt)); \
      }                                                                                          \
    }                                                                                            \
  };
// clang-format off
NSA_WGMMA_TILE(Bf16, "bf16")
NSA_WGMMA_TILE(Fp16, "f16")
// clang-format on
#undef NSA_WGMMA_TILE
#undef NSA_LEFT_HELD
#undef NSA_BOTH_SHARED
#undef NSA_WGMMA
#undef NSA_LIST32
#undef NSA_LIST16
#undef NSA_ACC16
#undef NSA_ACC4

struct Wgmma {
  NSA_DEVICE static void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
  template <class... R>
  NSA_DEVICE static void begin(R&... registers) {
    (pin(registers), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  }
  NSA_DEVICE static void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
  template <int kLeft, class... R>
  NSA_DEVICE static void wait(R&... registers) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
    (pin(registers), ...);
  }
  template <int kGroups>
  NSA_DEVICE static void settle(int group) {
    named_sync(1 + group, 128);
  }

  template <class E, int kColumns, int kDepth, class A, class B>
  NSA_DEVICE static void product(float (&acc)[kColumns / 8][4], const A& a, const B& b, int) {
    columns<0, kColumns>([&]<int kFirst, int kCount>() {
      const std::uint64_t left = descriptor<A>(a, 0);
      const std::uint64_t right = descriptor<B>(b, kFirst);
      depths<0, kDepth / 16>([&]<int k>() {
        WgmmaTile<E>::template shared<kCount,
                                      kFirst / 8,
                                      (k > 0),
                                      A::kMajor == Major::mn,
                                      B::kMajor == Major::mn>(
            acc, left + step<A>(k), right + step<B>(k));
      });
    });
  }
  template <class E, int kColumns, int kDepth, class B>
  NSA_DEVICE static void multiply_held(float (&acc)[kColumns / 8][4],
                                       const std::uint32_t (&a)[kDepth / 16][4],
                                       const B& b,
                                       int) {
    held_columns<E, kColumns, kDepth, true>(acc, a, b);
  }
  template <class E, int kColumns, int kDepth, class B>
  NSA_DEVICE static void product_held(float (&acc)[kColumns / 8][4],
                                      const std::uint32_t (&a)[kDepth / 16][4],
                                      const B& b,
                                      int) {
    held_columns<E, kColumns, kDepth, false>(acc, a, b);
  }

 private:
  template <class E, int kColumns, int kDepth, bool kAdds, class B>
  NSA_DEVICE static void held_columns(float (&acc)[kColumns / 8][4],
                                      const std::uint32_t (&a)[kDepth / 16][4],
                                      const B& b) {
    columns<0, kColumns>([&]<int kFirst, int kCount>() {
      const std::uint64_t right = descriptor<B>(b, kFirst);
      depths<0, kDepth / 16>([&]<int k>() {
        WgmmaTile<E>::template held<kCount, kFirst / 8, (kAdds || k > 0), B::kMajor == Major::mn>(
            acc, a[k], right + step<B>(k));
      });
    });
  }

  // Columns of a product in pieces of 64, and of 32 what is left.
  template <int kFirst, int kColumns, class Use>
  NSA_DEVICE static void columns(const Use& use) {
    if constexpr (kFirst < kColumns) {
      constexpr int kCount = kColumns - kFirst >= 64 ? 64 : 32;
      use.template operator()<kFirst, kCount>();
      columns<kFirst + kCount, kColumns>(use);
    }
  }
  template <int k, int kEnd, class Use>
  NSA_DEVICE static void depths(const Use& use) {
    if constexpr (k < kEnd) {
      use.template operator()<k>();
      depths<k + 1, kEnd>(use);
    }
  }

  // Where an operand's rows (Major::k) or columns (Major::mn) from `first` on begin. Fields in units of 16 bytes: address; from
  // one panel to the next, which only Major::mn needs; from eight lines to the next eight; the pattern of the permutation.
  template <class O>
  NSA_DEVICE static std::uint64_t descriptor(const O& o, int first) {
    using T = typename O::T;
    const int at = o.first + first;
    const std::uint32_t address =
        o.tile + (O::kMajor == Major::k ? at * T::kLineBytes : at / T::kPanel * T::kPanelBytes);
    constexpr std::uint64_t kPanels = T::kPanelBytes / 16;
    constexpr std::uint64_t kEightLines = 8 * T::kLineBytes / 16;
    constexpr std::uint64_t kPattern = T::kPanel == 64 ? 1 : 2;
    constexpr std::uint64_t kFixed = kPanels << 16 | kEightLines << 32 | kPattern << 62;
    return kFixed | (address >> 4 & 0x3fff);
  }
  // From one step of 16 in depth to step k, in units of 16 bytes.
  template <class O>
  NSA_DEVICE static constexpr std::uint64_t step(int k) {
    using T = typename O::T;
    if (O::kMajor == Major::mn) return k * T::kLineBytes;  // 16 lines
    return (k * 16 / T::kPanel * T::kPanelBytes + k * 16 % T::kPanel * 2) / 16;
  }
};

}  // namespace nsa::kernels
