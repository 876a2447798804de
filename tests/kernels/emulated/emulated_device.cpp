#include <algorithm>
#include <bit>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulated_fiber.h"
#include "nsa/kernels/common/device.h"

namespace nsa::emulated {
namespace {

constexpr int kLanes = 32;
constexpr int kMostBarriers = 16;
constexpr int kGranule = 4;  // bytes of shared memory that are watched together

enum class Wait { none, warp, barrier, done };

struct Copy {
  std::uint32_t to;
  const void* from;
  int bytes;
  bool valid;
};

struct Lane {
  std::unique_ptr<Fiber> fiber;
  Wait wait = Wait::none;
  int barrier = 0;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};

using Clock = std::vector<std::uint32_t>;  // of each warp

struct Warp {
  const char* operation = nullptr;
  void* slots[kLanes] = {};
  int arrived = 0;
  std::uint64_t generation = 0;
  Clock seen;  // up to where this warp has seen the others' accesses
};

struct Barrier {
  int threads = 0;
  std::vector<int> waiting;
  std::vector<int> arrived;  // and gone on
  Clock passed_on;           // what those had seen
};

struct Access {
  int writer = -1;
  std::uint32_t written = 0;
  bool added = false;
  std::vector<std::uint32_t> read;  // by each warp
};

[[noreturn]] void fault(const std::string& what);

class Block {
 public:
  Block(int threads, int shared_bytes, const std::function<void()>& body, std::mt19937_64& random)
      : body_(body), random_(random), shared_(shared_bytes + 1024, 0xff) {
    auto address = reinterpret_cast<std::uintptr_t>(shared_.data());
    base_ = shared_.data() + (1024 - address % 1024) % 1024;
    shared_bytes_ = shared_bytes;
    lanes_.resize(threads);
    warps_.resize(threads / kLanes);
    for (auto& warp : warps_) warp.seen.assign(warps_.size(), 0);
    for (std::size_t i = 0; i < warps_.size(); ++i) warps_[i].seen[i] = 1;
    accesses_.resize((shared_bytes + kGranule - 1) / kGranule);
  }

  void run();
  void barrier(int id, int threads);
  void arrive(int id, int threads);
  void collective(const char* name, void* mine, void (*operation)(void* const*));
  unsigned char* access(std::uint32_t address, int bytes, bool writes, bool adds = false);

  Lane& lane() { return lanes_[current_]; }
  int current() const { return current_; }
  unsigned char* shared() { return base_; }
  unsigned index[3] = {};

 private:
  bool step_warp(int warp);
  void pause() { lane().fiber->leave(); }
  void release(Barrier& barrier);
  void count(Barrier& barrier, int id, int threads);
  int alive() const {
    return static_cast<int>(std::count_if(
        lanes_.begin(), lanes_.end(), [](const Lane& l) { return l.wait != Wait::done; }));
  }

  const std::function<void()>& body_;
  std::mt19937_64& random_;
  std::vector<unsigned char> shared_;
  unsigned char* base_ = nullptr;
  int shared_bytes_ = 0;
  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  Barrier barriers_[kMostBarriers];
  std::vector<Access> accesses_;
  int current_ = 0;
};

Block* running = nullptr;
std::mt19937_64 random_order{1};

[[noreturn]] void fault(const std::string& what) {
  std::string where;
  if (running != nullptr) {
    where = " (block " + std::to_string(running->index[0]) + "," +
            std::to_string(running->index[1]) + "," + std::to_string(running->index[2]) +
            ", thread " + std::to_string(running->current()) + ")";
  }
  throw std::logic_error(what + where);
}

// Runs the lanes of a warp until each of them waits. True: something moved.
bool Block::step_warp(int warp) {
  bool moved = false;
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < kLanes; ++i) {
      Lane& lane = lanes_[warp * kLanes + i];
      if (lane.wait != Wait::none) continue;
      current_ = warp * kLanes + i;
      lane.fiber->enter();
      if (lane.fiber->error()) std::rethrow_exception(lane.fiber->error());
      if (lane.fiber->done()) {
        lane.wait = Wait::done;
        const bool copies = std::any_of(lane.groups.begin(),
                                        lane.groups.end(),
                                        [](const auto& group) { return !group.empty(); });
        if (!lane.open.empty() || copies) fault("a thread ends with copies under way");
      }
      again = moved = true;
    }
  }
  return moved;
}

void Block::run() {
  running = this;
  for (auto& lane : lanes_) lane.fiber = std::make_unique<Fiber>(body_);
  std::vector<int> order(warps_.size());
  std::iota(order.begin(), order.end(), 0);
  while (alive() > 0) {
    std::shuffle(order.begin(), order.end(), random_);
    bool moved = false;
    for (const int warp : order) moved = step_warp(warp) || moved;
    Barrier& all = barriers_[0];
    if (!all.waiting.empty() && static_cast<int>(all.waiting.size()) == alive()) {
      release(all);
      moved = true;
    }
    if (!moved) {
      std::string what = "nothing moves:";
      for (std::size_t w = 0; w < warps_.size(); ++w) {
        if (warps_[w].arrived > 0) {
          what += " warp " + std::to_string(w) + " has " + std::to_string(warps_[w].arrived) +
                  " lanes in " + warps_[w].operation + ";";
        }
      }
      for (int b = 0; b < kMostBarriers; ++b) {
        if (!barriers_[b].waiting.empty()) {
          what += " barrier " + std::to_string(b) + " has " +
                  std::to_string(barriers_[b].waiting.size()) + " threads;";
        }
      }
      fault(what);
    }
  }
  running = nullptr;
}

void Block::release(Barrier& barrier) {
  Clock joined = std::move(barrier.passed_on);
  joined.resize(warps_.size(), 0);
  std::vector<bool> takes_part(warps_.size(), false);
  for (const int thread : barrier.waiting) takes_part[thread / kLanes] = true;
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    if (!takes_part[w]) continue;
    for (std::size_t i = 0; i < joined.size(); ++i) {
      joined[i] = std::max(joined[i], warps_[w].seen[i]);
    }
  }
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    if (!takes_part[w]) continue;
    warps_[w].seen = joined;
    ++warps_[w].seen[w];
  }
  for (const int thread : barrier.waiting) lanes_[thread].wait = Wait::none;
  barrier.waiting.clear();
  barrier.arrived.clear();
  barrier.passed_on.clear();
}

void Block::count(Barrier& barrier, int id, int threads) {
  const int all = static_cast<int>(barrier.waiting.size() + barrier.arrived.size());
  if (all > 1 && barrier.threads != threads) {
    fault("threads disagree about the size of barrier " + std::to_string(id));
  }
  barrier.threads = threads;
  if (all == threads) release(barrier);
}

void Block::arrive(int id, int threads) {
  Barrier& barrier = barriers_[id];
  if (std::find(barrier.arrived.begin(), barrier.arrived.end(), current_) !=
      barrier.arrived.end()) {
    fault("a thread arrives twice at barrier " + std::to_string(id));
  }
  Clock& seen = warps_[current_ / kLanes].seen;
  barrier.passed_on.resize(warps_.size(), 0);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    barrier.passed_on[i] = std::max(barrier.passed_on[i], seen[i]);
  }
  ++seen[current_ / kLanes];
  barrier.arrived.push_back(current_);
  count(barrier, id, threads);
}

void Block::barrier(int id, int threads) {
  Barrier& barrier = barriers_[id];
  barrier.waiting.push_back(current_);
  lane().wait = Wait::barrier;
  if (id != 0) count(barrier, id, threads);
  pause();
}

void Block::collective(const char* name, void* mine, void (*operation)(void* const*)) {
  Warp& warp = warps_[current_ / kLanes];
  if (warp.arrived == 0) warp.operation = name;
  if (std::strcmp(warp.operation, name) != 0) {
    fault(std::string("lanes of a warp are in ") + warp.operation + " and in " + name);
  }
  warp.slots[current_ % kLanes] = mine;
  if (++warp.arrived < kLanes) {
    lane().wait = Wait::warp;
    pause();
    return;
  }
  operation(warp.slots);
  warp.arrived = 0;
  const int first = current_ / kLanes * kLanes;
  for (int i = first; i < first + kLanes; ++i) {
    if (lanes_[i].wait == Wait::warp) lanes_[i].wait = Wait::none;
  }
}

unsigned char* Block::access(std::uint32_t address, int bytes, bool writes, bool adds) {
  if (static_cast<int>(address) + bytes > shared_bytes_ || address % bytes != 0) {
    fault("shared memory at " + std::to_string(address) + ", " + std::to_string(bytes) +
          " bytes, of " + std::to_string(shared_bytes_));
  }
  const int warp = current_ / kLanes;
  const Clock& seen = warps_[warp].seen;
  for (std::uint32_t g = address / kGranule; g < (address + bytes + kGranule - 1) / kGranule; ++g) {
    Access& access = accesses_[g];
    const bool both_add = adds && access.added;
    if (!both_add && access.writer >= 0 && access.writer != warp &&
        access.written > seen[access.writer]) {
      fault("shared memory at " + std::to_string(g * kGranule) + (writes ? " written" : " read") +
            " by warp " + std::to_string(warp) + " after a write of warp " +
            std::to_string(access.writer) + " without a barrier");
    }
    if (access.read.empty()) access.read.assign(warps_.size(), 0);
    if (writes) {
      for (std::size_t w = 0; w < warps_.size(); ++w) {
        if (static_cast<int>(w) != warp && access.read[w] > seen[w]) {
          fault("shared memory at " + std::to_string(g * kGranule) + " written by warp " +
                std::to_string(warp) + " after a read of warp " + std::to_string(w) +
                " without a barrier");
        }
      }
      access.writer = warp;
      access.written = seen[warp];
      access.added = adds;
    } else {
      access.read[warp] = seen[warp];
    }
  }
  return base_ + address;
}

std::uint16_t half_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const float magnitude = std::fabs(value);
  if (value != value) return static_cast<std::uint16_t>(sign | 0x7fffU);
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00U);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int step = std::max(exponent - 11, -24);  // of the last bit
  const double units = std::nearbyint(std::ldexp(static_cast<double>(magnitude), -step));
  if (units == 0) return sign;
  int power = step;
  auto whole = static_cast<std::uint32_t>(units);
  if (whole >= 2048) {
    whole /= 2;
    ++power;
  }
  if (whole < 1024) return static_cast<std::uint16_t>(sign | whole);
  return static_cast<std::uint16_t>(sign | ((power + 25) << 10) | (whole - 1024));
}

float half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  float value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return (bits & 0x8000U) != 0 ? -value : value;
}

}  // namespace

void run_grid(const Grid& grid, int threads, int shared_bytes, const std::function<void()>& body) {
  if (threads % kLanes != 0 || threads > 1024) throw std::logic_error("threads of a block");
  if (shared_bytes > 227 * 1024) throw std::logic_error("too much shared memory");
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        Block block(threads, shared_bytes, body, random_order);
        block.index[0] = x;
        block.index[1] = y;
        block.index[2] = z;
        try {
          block.run();
        } catch (...) {
          running = nullptr;
          throw;
        }
      }
    }
  }
}

void set_seed(std::uint64_t seed) {
  random_order.seed(seed);
}

unsigned char* shared_memory() {
  return running->shared();
}
int thread_index() {
  return running->current();
}
unsigned block_index(int axis) {
  return running->index[axis];
}
void arrive(int id, int threads) {
  running->arrive(id, threads);
}
void barrier(int id, int threads) {
  running->barrier(id, threads);
}
void collective(const char* name, void* mine, void (*operation)(void* const*)) {
  running->collective(name, mine, operation);
}
unsigned char* read_shared(std::uint32_t address, int bytes) {
  return running->access(address, bytes, false);
}
unsigned char* write_shared(std::uint32_t address, int bytes) {
  return running->access(address, bytes, true);
}

void count_shared(std::uint32_t address) {
  std::uint32_t value;
  unsigned char* at = running->access(address, 4, true, true);
  std::memcpy(&value, at, 4);
  ++value;
  std::memcpy(at, &value, 4);
}
void start_copy(std::uint32_t to, const void* from, int bytes, bool valid) {
  if (reinterpret_cast<std::uintptr_t>(from) % bytes != 0) fault("a copy from a crooked address");
  std::memset(write_shared(to, bytes), 0xff, bytes);
  running->lane().open.push_back({to, from, bytes, valid});
}
void commit_copies() {
  auto& lane = running->lane();
  lane.groups.push_back(std::move(lane.open));
  lane.open.clear();
}
void wait_copies(int left) {
  auto& groups = running->lane().groups;
  while (static_cast<int>(groups.size()) > left) {
    for (const Copy& copy : groups.front()) {
      unsigned char* to = write_shared(copy.to, copy.bytes);
      if (copy.valid) {
        std::memcpy(to, copy.from, copy.bytes);
      } else {
        std::memset(to, 0, copy.bytes);
      }
    }
    groups.pop_front();
  }
}

float element_to_float(std::uint16_t bits, bool is_bf16) {
  return is_bf16 ? std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16) : half_value(bits);
}
std::uint16_t float_to_element(float value, bool is_bf16) {
  if (!is_bf16) return half_bits(value);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace nsa::emulated

namespace nsa::kernels {
namespace {

void load(void* const* lanes, bool transposed) {
  std::uint16_t matrices[4][8][8];
  for (int i = 0; i < 32; ++i) {
    const auto* lane = static_cast<const MatrixRows*>(lanes[i]);
    std::memcpy(matrices[i / 8][i % 8], emulated::read_shared(lane->address, 16), 16);
  }
  for (int i = 0; i < 32; ++i) {
    auto* lane = static_cast<MatrixRows*>(lanes[i]);
    for (int m = 0; m < 4; ++m) {
      const int g = i / 4;
      const int t = 2 * (i % 4);
      const std::uint32_t low = transposed ? matrices[m][t][g] : matrices[m][g][t];
      const std::uint32_t high = transposed ? matrices[m][t + 1][g] : matrices[m][g][t + 1];
      lane->r[m] = low | high << 16;
    }
  }
}

}  // namespace

void load_matrices_of_warp(void* const* lanes) {
  load(lanes, false);
}
void load_matrices_transposed_of_warp(void* const* lanes) {
  load(lanes, true);
}

void multiply_tile_of_warp(void* const* lanes) {
  float a[16][16];
  float b[16][8];
  const auto value = [](const TileProduct& lane, std::uint32_t word, int half) {
    return emulated::element_to_float(static_cast<std::uint16_t>(word >> (16 * half)),
                                      lane.is_bf16);
  };
  for (int i = 0; i < 32; ++i) {
    const auto& lane = *static_cast<const TileProduct*>(lanes[i]);
    const int g = i / 4;
    const int t = 2 * (i % 4);
    for (int half = 0; half < 2; ++half) {
      a[g][t + half] = value(lane, lane.a[0], half);
      a[g + 8][t + half] = value(lane, lane.a[1], half);
      a[g][t + 8 + half] = value(lane, lane.a[2], half);
      a[g + 8][t + 8 + half] = value(lane, lane.a[3], half);
      b[t + half][g] = value(lane, lane.b[0], half);
      b[t + 8 + half][g] = value(lane, lane.b[1], half);
    }
  }
  for (int i = 0; i < 32; ++i) {
    const auto& lane = *static_cast<const TileProduct*>(lanes[i]);
    for (int c = 0; c < 4; ++c) {
      const int row = i / 4 + (c / 2) * 8;
      const int column = 2 * (i % 4) + c % 2;
      double sum = lane.c[c];
      for (int k = 0; k < 16; ++k) sum += static_cast<double>(a[row][k]) * b[k][column];
      lane.c[c] = static_cast<float>(sum);
    }
  }
}

void wait_turn(const int* done, int turn) {
  if (*done < turn) throw std::logic_error("a turn is waited for that comes later");
}

}  // namespace nsa::kernels
