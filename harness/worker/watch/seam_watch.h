// Stands around every seam of every attention layer and looks on: which seam runs now, which one ran when an autograd node
// was made, whether an implementation wrote into what it was given, and how often it made the host wait for the device.
// Installed after a fault, so that it sees what the fault does. It changes no value. Made by the kind; must outlive the model's
// forwards and backwards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "harness/worker/channel.h"
#include "harness/worker/watch/host_syncs.h"
#include "harness/worker/work_counters.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/torch.h"

namespace harness {

struct SeamPlace {
  int layer = -1;
  std::string seam;  // "" outside of seams
};

class SeamWatch {
 public:
  // `progress` is told which layer runs.
  SeamWatch(Channel& channel, Progress& progress) : channel_(channel), progress_(progress) {}
  SeamWatch(const SeamWatch&) = delete;
  SeamWatch& operator=(const SeamWatch&) = delete;

  // Puts itself around the seams as they are now; once a model.
  void install(nsa::NsaLm& model);

  void begin(std::int64_t step);

  // From now on done directly before each implementation of a seam is called.
  void in_front_of_seams(std::function<void()> what) { in_front_ = std::move(what); }

  // The seam that runs on this thread.
  [[nodiscard]] static SeamPlace running();
  // The seam that an exception left on this thread, unless another one ran since.
  [[nodiscard]] static SeamPlace threw();
  // The seam in which the forward operator with this autograd sequence number ran.
  [[nodiscard]] SeamPlace made(std::int64_t sequence) const;

  // Tells of every output of a seam that was written to since it was made and that somebody still holds: a backward may need
  // it. Call between forward and backward.
  void check_outputs();

  // The blocks of `layer` as `select` returned them in the last forward; undefined before one.
  [[nodiscard]] torch::Tensor blocks(int layer) const;

  // How many calls of seams were looked at: the evidence behind "nobody wrote into what he was given". And what the forwards of
  // each seam made the host wait for, as fact host_waits: [[seam, layer, calls, waits], ...] of the whole life, where there was
  // any.
  void write_total() const;

 private:
  friend class SeamCall;
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    SeamPlace place;
  };
  struct Waits {
    std::int64_t calls = 0;
    std::int64_t waits = 0;
  };
  struct Output {
    SeamPlace place;
    c10::weak_intrusive_ptr<at::TensorImpl> tensor;  // watching keeps nothing alive
    std::int64_t version = 0;
  };
  void watch_layer(nsa::AttentionSeams& seams);
  void watch_whole_layer(nsa::AttentionSeams& seams);
  // Writes nothing of no elements. `seen_by`: values, version counter, or both.
  void tell(const SeamPlace& by,
            const std::string& tensor,
            std::int64_t elements,
            const std::string& seen_by);
  void made_output(const SeamPlace& place, const torch::Tensor& tensor);
  void ended(const Range& range);
  void waited(const SeamPlace& place, std::int64_t waits);

  Channel& channel_;
  Progress& progress_;
  std::int64_t step_ = 1;
  std::int64_t calls_ = 0;
  std::function<void()> in_front_;
  mutable std::mutex mutex_;  // of ranges_: a device's backward thread asks
  std::vector<Range> ranges_;
  std::map<int, torch::Tensor> blocks_;
  std::vector<Output> outputs_;
  HostSyncs syncs_;
  std::map<std::pair<std::string, int>, Waits> waits_;  // by seam and layer
};

}  // namespace harness
