// The lane-level functions of nsa/kernels/common/device.h on the host. Each thread of a block is a fiber; warps run in an
// order drawn anew for every block. What a card would do silently is an error here: lanes of a warp in different collective
// operations, addresses outside of the block's shared memory, and races in shared memory between warps (every access is
// compared with the barriers since the last conflicting one). Shared memory starts as NaNs, and so does the target of a copy
// that nobody has waited for.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#define NSA_DEVICE inline
#define NSA_KERNEL(threads, blocks) void
#define NSA_PARAMETER const
#define NSA_SHARED(name) unsigned char* name = ::nsa::emulated::shared_memory()
#define NSA_UNROLL
#define NSA_NO_UNROLL
#define NSA_EMULATED_ONLY 1

namespace nsa::emulated {

struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

// Runs every block of a grid, one after the other. Throws std::logic_error on a fault of the kernel.
void run_grid(const Grid& grid, int threads, int shared_bytes, const std::function<void()>& body);
// Order of warps in the blocks to come.
void set_seed(std::uint64_t seed);

unsigned char* shared_memory();
int thread_index();
unsigned block_index(int axis);

void barrier(int id, int threads);  // id 0: all threads of the block
void arrive(int id, int threads);   // without waiting
// All 32 lanes arrive with a pointer to what they bring; the last one runs `operation` for all of them.
void collective(const char* name, void* mine, void (*operation)(void* const* lanes));

// Bytes of shared memory that this lane's warp reads or writes.
unsigned char* read_shared(std::uint32_t address, int bytes);
unsigned char* write_shared(std::uint32_t address, int bytes);
void count_shared(std::uint32_t address);  // adds 1; additions of several warps are no race
void start_copy(std::uint32_t to, const void* from, int bytes, bool valid);
void commit_copies();
void wait_copies(int left);

float element_to_float(std::uint16_t bits, bool is_bf16);
std::uint16_t float_to_element(float value, bool is_bf16);

}  // namespace nsa::emulated

namespace nsa::kernels {

inline int thread_index() {
  return emulated::thread_index();
}
inline int lane_index() {
  return emulated::thread_index() & 31;
}
inline int block_x() {
  return static_cast<int>(emulated::block_index(0));
}
inline int block_y() {
  return static_cast<int>(emulated::block_index(1));
}
inline int block_z() {
  return static_cast<int>(emulated::block_index(2));
}
inline void block_sync() {
  emulated::barrier(0, 0);
}
inline void named_sync(int id, int threads) {
  emulated::barrier(id, threads);
}
inline void named_arrive(int id, int threads) {
  emulated::arrive(id, threads);
}

template <class T, class Operation>
inline T exchange(const char* name, T mine, Operation /*stateless*/) {
  struct Slot {
    T in;
    T out;
  } slot{mine, mine};
  emulated::collective(name, &slot, [](void* const* lanes) {
    T values[32];
    for (int i = 0; i < 32; ++i) values[i] = static_cast<Slot*>(lanes[i])->in;
    for (int i = 0; i < 32; ++i) static_cast<Slot*>(lanes[i])->out = Operation{}(values, i);
  });
  return slot.out;
}

template <class T>
struct Addressed {
  T value;
  int lane;
};
template <class T>
inline T take_from(const char* name, T value, int lane) {
  struct Pick {
    Addressed<T> operator()(const Addressed<T>* all, int i) const {
      return {all[all[i].lane & 31].value, all[i].lane};
    }
  };
  return exchange(name, Addressed<T>{value, lane}, Pick{}).value;
}

inline void warp_sync() {
  take_from("warp_sync", 0, 0);
}
// All lanes must be there, as on a card.
inline int warp_index() {
  return take_from("warp_index", emulated::thread_index() / 32, 0);
}
inline float shuffle_xor(float value, int mask) {
  return take_from("shuffle_xor", value, lane_index() ^ mask);
}
inline float shuffle(float value, int lane) {
  return take_from("shuffle", value, lane);
}
inline int shuffle(int value, int lane) {
  return take_from("shuffle", value, lane);
}
inline int shuffle_up(int value, int distance) {
  const int lane = lane_index();
  return take_from("shuffle_up", value, lane < distance ? lane : lane - distance);
}
inline std::uint32_t warp_largest(std::uint32_t value) {
  struct Largest {
    std::uint32_t operator()(const std::uint32_t* all, int) const {
      std::uint32_t r = 0;
      for (int i = 0; i < 32; ++i) r = all[i] > r ? all[i] : r;
      return r;
    }
  };
  return exchange("warp_largest", value, Largest{});
}
inline std::uint32_t warp_smallest(std::uint32_t value) {
  struct Smallest {
    std::uint32_t operator()(const std::uint32_t* all, int) const {
      std::uint32_t r = 0xffffffffU;
      for (int i = 0; i < 32; ++i) r = all[i] < r ? all[i] : r;
      return r;
    }
  };
  return exchange("warp_smallest", value, Smallest{});
}
inline std::uint32_t warp_sum(std::uint32_t value) {
  struct Sum {
    std::uint32_t operator()(const std::uint32_t* all, int) const {
      std::uint32_t r = 0;
      for (int i = 0; i < 32; ++i) r += all[i];
      return r;
    }
  };
  return exchange("warp_sum", value, Sum{});
}
inline int bit_count(std::uint32_t bits) {
  return std::popcount(bits);
}
inline std::uint32_t warp_ballot(bool value) {
  struct Ballot {
    std::uint32_t operator()(const std::uint32_t* all, int) const {
      std::uint32_t r = 0;
      for (int i = 0; i < 32; ++i) r |= all[i] << i;
      return r;
    }
  };
  return exchange("warp_ballot", value ? 1U : 0U, Ballot{});
}

inline std::uint32_t float_to_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float bits_to_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline float exp2_fast(float x) {
  return std::exp2(x);
}
inline float reciprocal_fast(float x) {
  return 1.0F / x;
}
inline float rsqrt_float(float x) {
  return 1.0F / std::sqrt(x);
}
inline float log2_fast(float x) {
  return std::log2(x);
}
inline float log2_exact(float x) {
  return std::log2(x);
}
inline float largest_or_nan(float a, float b) {
  return a != a || b != b ? a + b : (a > b ? a : b);
}
inline float minus_infinity() {
  return -INFINITY;
}
inline std::uint32_t permute(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t bytes = (static_cast<std::uint64_t>(b) << 32) | a;
  std::uint32_t r = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t digit = (selector >> (4 * i)) & 7;
    r |= static_cast<std::uint32_t>((bytes >> (8 * digit)) & 0xff) << (8 * i);
  }
  return r;
}

inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(pointer) -
                                    emulated::shared_memory());
}
inline void copy16(std::uint32_t to, const void* from, bool valid) {
  emulated::start_copy(to, from, 16, valid);
}
inline void copy8(std::uint32_t to, const void* from, bool valid) {
  emulated::start_copy(to, from, 8, valid);
}
inline void copy4(std::uint32_t to, const void* from, bool valid) {
  emulated::start_copy(to, from, 4, valid);
}
inline void copy_commit() {
  emulated::commit_copies();
}
template <int kLeft>
inline void copy_wait() {
  emulated::wait_copies(kLeft);
}

inline void store_shared(std::uint32_t address, std::uint32_t value) {
  std::memcpy(emulated::write_shared(address, 4), &value, 4);
}
inline std::uint32_t load_shared(std::uint32_t address) {
  std::uint32_t value;
  std::memcpy(&value, emulated::read_shared(address, 4), 4);
  return value;
}
inline Words4 load_shared16(std::uint32_t address) {
  Words4 v;
  std::memcpy(&v, emulated::read_shared(address, 16), 16);
  return v;
}
inline float load_shared_float(std::uint32_t address) {
  return bits_to_float(load_shared(address));
}
inline void store_shared_float(std::uint32_t address, float value) {
  store_shared(address, float_to_bits(value));
}
inline Pair load_shared_pair(std::uint32_t address) {
  Pair v;
  std::memcpy(&v, emulated::read_shared(address, 8), 8);
  return v;
}
inline void store_pair(float* to, float x, float y) {
  to[0] = x;
  to[1] = y;
}
inline Pair load_pair_coherent(const float* from) {
  return {from[0], from[1]};
}
inline Words4 load_global16(const void* from) {
  Words4 v;
  std::memcpy(&v, from, 16);
  return v;
}
inline void store_global16(void* to, const Words4& v) {
  std::memcpy(to, &v, 16);
}

inline Words4 load_global16_once(const void* from) {
  return load_global16(from);
}
inline void store_global16_once(void* to, const Words4& v) {
  store_global16(to, v);
}
inline Words2 load_global8_once(const void* from) {
  Words2 v;
  std::memcpy(&v, from, 8);
  return v;
}
inline void store_global8_once(void* to, const Words2& v) {
  std::memcpy(to, &v, 8);
}
inline std::uint32_t load_global4_once(const void* from) {
  std::uint32_t v = 0;
  std::memcpy(&v, from, 4);
  return v;
}
inline void store_global4_once(void* to, std::uint32_t v) {
  std::memcpy(to, &v, 4);
}

struct MatrixRows {
  std::uint32_t address;
  std::uint32_t r[4];
};
void load_matrices_of_warp(void* const* lanes);
void load_matrices_transposed_of_warp(void* const* lanes);
inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  MatrixRows mine{address, {}};
  emulated::collective("load_matrices", &mine, load_matrices_of_warp);
  std::memcpy(r, mine.r, sizeof r);
}
inline void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  MatrixRows mine{address, {}};
  emulated::collective("load_matrices_transposed", &mine, load_matrices_transposed_of_warp);
  std::memcpy(r, mine.r, sizeof r);
}

struct TileProduct {
  std::uint32_t a[4];
  std::uint32_t b[2];
  float* c;
  bool is_bf16;
};
void multiply_tile_of_warp(void* const* lanes);
template <class E>
inline void multiply_tile(float (&c)[4],
                          const std::uint32_t (&a)[4],
                          std::uint32_t b0,
                          std::uint32_t b1) {
  TileProduct mine{{a[0], a[1], a[2], a[3]}, {b0, b1}, c, std::is_same_v<E, Bf16>};
  emulated::collective("multiply_tile", &mine, multiply_tile_of_warp);
}

template <class E>
inline std::uint32_t pack(float low, float high) {
  constexpr bool kBf16 = std::is_same_v<E, Bf16>;
  return static_cast<std::uint32_t>(emulated::float_to_element(high, kBf16)) << 16 |
         emulated::float_to_element(low, kBf16);
}
template <class E>
inline Pair unpack(std::uint32_t v) {
  constexpr bool kBf16 = std::is_same_v<E, Bf16>;
  return {emulated::element_to_float(static_cast<std::uint16_t>(v), kBf16),
          emulated::element_to_float(static_cast<std::uint16_t>(v >> 16), kBf16)};
}

// Blocks run in order: a turn that has not come yet never comes.
void wait_turn(const int* done, int turn);
inline void memory_fence() {}
inline void pass_turn(int* done, int turn) {
  *done = turn + 1;
}
inline void count_one(std::uint32_t address) {
  emulated::count_shared(address);
}
inline int take_ticket(int* counter) {
  return (*counter)++;
}

}  // namespace nsa::kernels
