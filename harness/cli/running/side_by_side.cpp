#include "harness/cli/running/side_by_side.h"

#include <condition_variable>
#include <exception>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace harness::cli {
namespace {

class Crew {
 public:
  Crew(const std::vector<Needs>& pieces,
       const Capacity& capacity,
       const std::function<void(std::size_t, const Place&)>& run,
       Order order)
      : pieces_(pieces), run_(run), order_(order), admission_(capacity), waiting_(pieces.size()) {
    std::iota(waiting_.begin(), waiting_.end(), std::size_t{0});
    if (order == Order::as_given) return;
    waiting_.sort([&](std::size_t a, std::size_t b) { return comes_before(pieces[a], pieces[b]); });
  }

  void work() {
    std::unique_lock lock(mutex_);
    begin_what_fits();
    while (!threads_.empty()) {
      ended_.wait(lock, [this] { return !over_.empty(); });
      for (const std::size_t piece : over_)
        threads_.erase(piece);  // joins it: it has nothing left to do
      over_.clear();
      begin_what_fits();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // A long one that begins last would be waited for by an idle machine.
  static bool comes_before(const Needs& a, const Needs& b) {
    if (a.alone || b.alone) return !a.alone && b.alone;
    return a.seconds > b.seconds;
  }

  void begin_what_fits() {
    for (auto at = waiting_.begin(); at != waiting_.end() && !failure_;) {
      const std::size_t piece = *at;
      const auto place = admission_.admit(pieces_[piece]);
      if (!place && order_ == Order::as_given) return;
      at = place ? waiting_.erase(at) : std::next(at);
      if (place) begin(piece, *place);
    }
  }

  void begin(std::size_t piece, const Place& place) {
    try {
      threads_.emplace(piece, [this, piece, place] { do_one(piece, place); });
    } catch (...) {  // no more threads on this machine
      failure_ = std::current_exception();
      admission_.release(pieces_[piece], place);
    }
  }

  void do_one(std::size_t piece, const Place& place) noexcept {
    std::exception_ptr failed;
    try {
      run_(piece, place);
    } catch (...) {
      failed = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (failed && !failure_) failure_ = failed;
    admission_.release(pieces_[piece], place);
    over_.push_back(piece);
    ended_.notify_one();
  }

  const std::vector<Needs>& pieces_;
  const std::function<void(std::size_t, const Place&)>& run_;
  const Order order_;
  std::mutex mutex_;  // of all below
  std::condition_variable ended_;
  Admission admission_;
  std::list<std::size_t> waiting_;
  std::vector<std::size_t> over_;  // ended, not yet joined
  std::exception_ptr failure_;     // the first
  std::map<std::size_t, std::jthread> threads_;
};

}  // namespace

void run_side_by_side(const std::vector<Needs>& pieces,
                      const Capacity& capacity,
                      const std::function<void(std::size_t, const Place&)>& run,
                      Order order) {
  Crew(pieces, capacity, run, order).work();
}

}  // namespace harness::cli
