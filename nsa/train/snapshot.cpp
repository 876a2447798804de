#include "nsa/train/snapshot.h"

#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "nsa/base/safetensors.h"
#include "nsa/base/text.h"
#include "nsa/tensor_dtype.h"

namespace nsa {
namespace {

using torch::Tensor;

constexpr const char* kFormat = "nsa snapshot 1";

// One named tensor of the state, where it is now.
struct Entry {
  std::string name;
  Tensor tensor;
};

struct Layout {
  std::vector<Entry> weights;
  std::vector<Entry> optimizer;  // moments and masters
  std::vector<Entry> rng;
};

at::Generator generator(const torch::Device& device) {
  return at::globalContext().defaultGenerator(device);
}

std::vector<Entry> rng_entries(const torch::Device& device) {
  std::vector<Entry> entries = {{"rng.cpu", generator(torch::kCPU).get_state()}};
  if (!device.is_cpu()) entries.push_back({"rng.device", generator(device).get_state()});
  return entries;
}

Layout layout_of(const SnapshotParts& parts, OptimizerState& state) {
  Layout layout;
  for (std::size_t i = 0; i < parts.parameters.size(); ++i) {
    const auto& [name, parameter] = parts.parameters[i];
    layout.weights.push_back({"model." + name, parameter.detach()});
    layout.optimizer.push_back({"exp_avg." + name, state.exp_avg[i]});
    layout.optimizer.push_back({"exp_avg_sq." + name, state.exp_avg_sq[i]});
    if (!state.masters.empty()) {
      layout.optimizer.push_back({"master." + name, state.masters[i].detach()});
    }
  }
  layout.rng = rng_entries(parts.parameters.front().second.device());
  return layout;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path.string()), file_(path) {
    if (text("format") != kFormat) throw Error(path_ + ": found no snapshot, wanted one");
  }

  [[nodiscard]] std::string text(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end()) throw Error(path_ + ": found no " + key);
    return found->second;
  }
  [[nodiscard]] std::int64_t integer(const std::string& key) const {
    const auto value = parse_int(text(key));
    if (!value) throw Error(path_ + ": " + key + ": found " + text(key) + ", wanted an integer");
    return *value;
  }
  [[nodiscard]] double number(const std::string& key) const {
    const auto value = parse_double(text(key));
    if (!value) throw Error(path_ + ": " + key + ": found " + text(key) + ", wanted a number");
    return *value;
  }

  // The tensor of that name, with the dtype and shape of `like`, on the CPU.
  [[nodiscard]] Tensor tensor(const Entry& like) const {
    const TensorView& view = file_.at(like.name);
    const std::vector<std::int64_t> shape = like.tensor.sizes().vec();
    if (view.shape != shape || view.dtype != stored_dtype(like.tensor.scalar_type())) {
      throw Error(path_ + ": " + like.name + ": found " + std::string(dtype_name(view.dtype)) +
                  " " + shape_text(view.shape) + ", wanted " +
                  std::string(dtype_name(stored_dtype(like.tensor.scalar_type()))) + " " +
                  shape_text(shape));
    }
    Tensor copy = torch::empty(shape, like.tensor.options().device(torch::kCPU));
    std::memcpy(copy.data_ptr(), view.bytes.data(), view.bytes.size());
    return copy;
  }

 private:
  std::string path_;
  SafetensorsFile file_;
};

OptimizerState read_optimizer(const Reader& reader, const Layout& layout, OptimizerState state) {
  const bool masters = !state.masters.empty();
  const std::size_t each = masters ? 3 : 2;
  const Tensor steps = reader.tensor(
      {"adam_steps",
       torch::zeros({static_cast<std::int64_t>(state.adam_steps.size())}, torch::kLong)});
  for (std::size_t i = 0; i < state.adam_steps.size(); ++i) {
    const auto device = state.exp_avg[i].device();
    state.adam_steps[i] = steps[static_cast<std::int64_t>(i)].item<std::int64_t>();
    state.exp_avg[i] = reader.tensor(layout.optimizer[each * i]).to(device);
    state.exp_avg_sq[i] = reader.tensor(layout.optimizer[each * i + 1]).to(device);
    if (masters) state.masters[i] = reader.tensor(layout.optimizer[each * i + 2]).to(device);
  }
  return state;
}

}  // namespace

std::map<std::string, std::string> snapshot_hashes(const SnapshotParts& parts) {
  OptimizerState state = parts.optimizer.state();
  const Layout layout = layout_of(parts, state);
  std::map<std::string, std::string> hashes;
  for (const auto* entries : {&layout.weights, &layout.optimizer, &layout.rng}) {
    for (const Entry& entry : *entries) {
      const Tensor there = entry.tensor.to(torch::kCPU).contiguous();
      hashes[entry.name] =
          hash_hex({static_cast<const std::byte*>(there.data_ptr()), there.nbytes()});
    }
  }
  return hashes;
}

void save_snapshot(const std::filesystem::path& path,
                   const SnapshotParts& parts,
                   std::int64_t step) {
  OptimizerState state = parts.optimizer.state();
  const Layout layout = layout_of(parts, state);
  std::vector<Entry> entries = layout.weights;
  entries.insert(entries.end(), layout.optimizer.begin(), layout.optimizer.end());
  entries.insert(entries.end(), layout.rng.begin(), layout.rng.end());
  entries.push_back({"adam_steps", torch::tensor(state.adam_steps, torch::kLong)});
  std::vector<TensorToWrite> tensors;
  for (Entry& entry : entries) {
    entry.tensor = entry.tensor.to(torch::kCPU).contiguous();
    tensors.push_back(
        {entry.name,
         stored_dtype(entry.tensor.scalar_type()),
         entry.tensor.sizes().vec(),
         {static_cast<const std::byte*>(entry.tensor.data_ptr()), entry.tensor.nbytes()}});
  }
  write_safetensors(path,
                    tensors,
                    {{"format", kFormat},
                     {"step", std::to_string(step)},
                     {"taken", std::to_string(state.taken)},
                     {"loss_scale", to_text(state.scaler.scale, 17)},
                     {"good_steps", std::to_string(state.scaler.good_steps)},
                     {"skipped", std::to_string(state.scaler.skipped)},
                     {"data", parts.data_identity}});
}

std::int64_t load_snapshot(const std::filesystem::path& path,
                           const SnapshotParts& parts,
                           const SnapshotSections& sections) {
  const Reader reader(path);
  if (reader.text("data") != parts.data_identity) {
    throw Error(path.string() + ": found data " + reader.text("data") + ", wanted " +
                parts.data_identity);
  }
  const std::int64_t step = reader.integer("step");
  OptimizerState now = parts.optimizer.state();
  const Layout layout = layout_of(parts, now);
  OptimizerState state = sections.optimizer ? read_optimizer(reader, layout, now) : now;
  if (sections.schedule) state.taken = reader.integer("taken");
  if (sections.scaler) {
    state.scaler = {
        reader.number("loss_scale"), reader.integer("good_steps"), reader.integer("skipped")};
  }
  std::vector<Tensor> weights;
  for (const Entry& entry : layout.weights) weights.push_back(reader.tensor(entry));
  // Masters that are not read back start from the weights that are.
  if (!sections.optimizer) {
    for (std::size_t i = 0; i < state.masters.size(); ++i) {
      state.masters[i] = weights[i].to(torch::kFloat32);
    }
  }
  std::vector<Tensor> rng;
  for (const Entry& entry : layout.rng) rng.push_back(reader.tensor(entry));

  // Everything was read and fits.
  const torch::NoGradGuard no_graph;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    Tensor parameter = parts.parameters[i].second;
    parameter.copy_(weights[i]);
  }
  parts.optimizer.load(state);
  if (sections.rng) {
    generator(torch::kCPU).set_state(rng.front());
    const auto device = parts.parameters.front().second.device();
    if (rng.size() > 1) generator(device).set_state(rng[1]);
  }
  return step;
}

std::string snapshot_data_identity(const std::filesystem::path& path) {
  return Reader(path).text("data");
}

}  // namespace nsa
