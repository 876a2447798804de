#include "tests/kernels/judge/run.h"

#include <cmath>
#include <cstring>
#include <memory>

namespace judge {
namespace {

namespace nk = nsa::kernels;

// All tensors of a case on the device.
struct Device {
  explicit Device(const Case& one, const CaseInputs& inputs)
      : p(one.problem),
        heads(std::int64_t{p.groups} * p.heads),
        gate_owners(p.gate_form == nk::GateForm::per_head ? heads : p.groups),
        gate_kind(p.gate_type == nk::GateType::float32 ? Kind::float32 : Kind::element),
        q(one, Kind::element, heads, p.d_k, query_place(one)),
        d_o(one, Kind::element, heads, p.d_v, query_place(one)),
        gates(one, gate_kind, gate_owners, 3, query_place(one)),
        starts(sizeof(std::int32_t) * (one.lengths.size() + 1)),
        conv{DeviceMemory(2 * inputs.k_conv.size() + 16),
             DeviceMemory(2 * inputs.v_conv.size() + 16)} {
    const auto all = [&](Numbers Sequence::*field) {
      std::vector<const Numbers*> values;
      for (const Sequence& s : inputs.sequences) values.push_back(&(s.*field));
      return values;
    };
    const auto keys = [&](std::int64_t width, Numbers Sequence::*field) {
      auto tensor =
          std::make_unique<DeviceTensor>(one, Kind::element, p.groups, width, key_place(one));
      tensor->upload(all(field));
      return tensor;
    };
    q.upload(all(&Sequence::q));
    d_o.upload(all(&Sequence::d_o));
    gates.upload(all(&Sequence::gates));
    k_raw = keys(p.d_k, &Sequence::k_raw);
    v_raw = keys(p.d_v, &Sequence::v_raw);
    k_sel = keys(p.d_k, &Sequence::k_sel);
    v_sel = keys(p.d_v, &Sequence::v_sel);
    k_win = keys(p.d_k, &Sequence::k_win);
    v_win = keys(p.d_v, &Sequence::v_win);
    const auto positions = starts_of(one);
    starts.upload(positions.data(), positions.size() * sizeof(std::int32_t));
    const Numbers* weights[2] = {&inputs.k_conv, &inputs.v_conv};
    for (int i = 0; i < 2; ++i) {
      std::vector<std::uint16_t> bits;
      for (const double w : *weights[i]) bits.push_back(element_bits(w, p.element));
      conv[i].upload(bits.data(), bits.size() * 2);
    }
  }

  nk::Inputs inputs() const {
    nk::Inputs in;
    in.q = q.rows();
    in.k_raw = k_raw->rows();
    in.v_raw = v_raw->rows();
    in.k_sel = k_sel->rows();
    in.v_sel = v_sel->rows();
    in.k_win = k_win->rows();
    in.v_win = v_win->rows();
    in.gates = gates.rows();
    in.k_conv = conv[0].data();
    in.v_conv = conv[1].data();
    in.cu_seqlens = cu_seqlens();
    return in;
  }
  const std::int32_t* cu_seqlens() const {
    return p.varlen ? reinterpret_cast<const std::int32_t*>(starts.data()) : nullptr;
  }

  const nk::Problem& p;
  std::int64_t heads;
  std::int64_t gate_owners;
  Kind gate_kind;
  DeviceTensor q, d_o, gates;
  std::unique_ptr<DeviceTensor> k_raw, v_raw, k_sel, v_sel, k_win, v_win;
  DeviceMemory starts;
  DeviceMemory conv[2];
};

struct Produced {
  Produced(const Case& one, const Device& device)
      : p(one.problem),
        rows(p.all_tokens() * device.heads),
        lse{DeviceMemory(4 * rows + 4), DeviceMemory(4 * rows + 4), DeviceMemory(4 * rows + 4)},
        d_conv{DeviceMemory(4 * p.d_k * p.l), DeviceMemory(4 * p.d_v * p.l)} {
    const auto make =
        [&](Kind kind, std::int64_t heads, std::int64_t width, const DeviceTensor::Place& place) {
          tensors.push_back(std::make_unique<DeviceTensor>(one, kind, heads, width, place));
          return tensors.back().get();
        };
    k_cmp = make(Kind::element, p.groups, p.d_k, compressed_place(one));
    v_cmp = make(Kind::element, p.groups, p.d_v, compressed_place(one));
    for (auto& output : branch) output = make(Kind::element, device.heads, p.d_v, query_place(one));
    o = make(Kind::element, device.heads, p.d_v, query_place(one));
    blocks = make(Kind::int32, p.groups, p.n_sel, query_place(one));
    d_gates = make(device.gate_kind, device.gate_owners, 3, query_place(one));
    d_q = make(Kind::element, device.heads, p.d_k, query_place(one));
    for (auto& d : d_k) d = make(Kind::element, p.groups, p.d_k, key_place(one));
    for (auto& d : d_v) d = make(Kind::element, p.groups, p.d_v, key_place(one));
  }

  void poison() const {
    for (const auto& tensor : tensors) tensor->poison();
    for (const auto& memory : lse) memory.fill(0xff);
    for (const auto& memory : d_conv) memory.fill(0xff);
  }

  float* sums(int i) const { return reinterpret_cast<float*>(lse[i].data()); }

  nk::Saved saved(bool with_outputs) const {
    nk::Saved s;
    s.k_cmp = k_cmp->rows();
    s.v_cmp = v_cmp->rows();
    if (with_outputs) {
      s.o_cmp = branch[0]->rows();
      s.o_sel = branch[1]->rows();
      s.o_win = branch[2]->rows();
    }
    s.lse_cmp = sums(0);
    s.lse_sel = sums(1);
    s.lse_win = sums(2);
    s.blocks = blocks->rows();
    return s;
  }
  nk::Gradients gradients() const {
    nk::Gradients g;
    g.q = d_q->rows();
    g.k_raw = d_k[0]->rows();
    g.v_raw = d_v[0]->rows();
    g.k_sel = d_k[1]->rows();
    g.v_sel = d_v[1]->rows();
    g.k_win = d_k[2]->rows();
    g.v_win = d_v[2]->rows();
    g.gates = d_gates->rows();
    g.k_conv = reinterpret_cast<float*>(d_conv[0].data());
    g.v_conv = reinterpret_cast<float*>(d_conv[1].data());
    return g;
  }

  // Every byte, for comparing repeats.
  std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> all;
    const auto add = [&](std::vector<unsigned char> more) {
      all.insert(all.end(), more.begin(), more.end());
    };
    for (const auto& tensor : tensors) add(tensor->bytes());
    for (const auto* memories : {lse, d_conv}) {
      const int count = memories == lse ? 3 : 2;
      for (int i = 0; i < count; ++i) {
        std::vector<unsigned char> more(memories[i].bytes());
        memories[i].download(more.data(), more.size());
        add(more);
      }
    }
    return all;
  }

  AllOutcomes outcome(const Case& one, bool saves) const;

  const nk::Problem& p;
  std::int64_t rows;
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  DeviceTensor* k_cmp = nullptr;
  DeviceTensor* v_cmp = nullptr;
  DeviceTensor* branch[3] = {};
  DeviceTensor* o = nullptr;
  DeviceTensor* blocks = nullptr;
  DeviceTensor* d_gates = nullptr;
  DeviceTensor* d_q = nullptr;
  DeviceTensor* d_k[3] = {};  // raw, sel, win
  DeviceTensor* d_v[3] = {};
  DeviceMemory lse[3];
  DeviceMemory d_conv[2];
};

Numbers floats_of(const DeviceMemory& memory, std::int64_t count) {
  std::vector<float> values(count);
  memory.download(values.data(), values.size() * 4);
  return {values.begin(), values.end()};
}

AllOutcomes Produced::outcome(const Case& one, bool saves) const {
  AllOutcomes all;
  all.sequences.resize(one.lengths.size());
  const auto put = [&](const DeviceTensor* tensor, Numbers Outcome::*field) {
    auto values = tensor->download();
    for (std::size_t b = 0; b < values.size(); ++b) all.sequences[b].*field = std::move(values[b]);
  };
  put(k_cmp, &Outcome::k_cmp);
  put(v_cmp, &Outcome::v_cmp);
  if (saves) {
    put(branch[0], &Outcome::o_cmp);
    put(branch[1], &Outcome::o_sel);
    put(branch[2], &Outcome::o_win);
  }
  put(o, &Outcome::o);
  const auto lists = blocks->download();
  for (std::size_t b = 0; b < lists.size(); ++b) {
    for (const double block : lists[b])
      all.sequences[b].blocks.push_back(static_cast<std::int64_t>(block));
  }
  Numbers Outcome::*const sums[3] = {&Outcome::lse_cmp, &Outcome::lse_sel, &Outcome::lse_win};
  const auto starts = starts_of(one);
  for (int i = 0; i < 3; ++i) {
    const Numbers packed = floats_of(lse[i], rows);  // [G,T,h]
    for (std::size_t b = 0; b < one.lengths.size(); ++b) {
      Numbers& out = all.sequences[b].*sums[i];
      for (std::int64_t head = 0; head < std::int64_t{p.groups} * p.heads; ++head) {
        for (std::int64_t t = 0; t < one.lengths[b]; ++t) {
          const std::int64_t g = head / p.heads;
          out.push_back(packed[(g * p.all_tokens() + starts[b] + t) * p.heads + head % p.heads]);
        }
      }
    }
  }
  if (!one.backward || !saves) return all;
  put(d_q, &Outcome::d_q);
  put(d_gates, &Outcome::d_gates);
  Numbers Outcome::*const keys[3] = {&Outcome::d_k_raw, &Outcome::d_k_sel, &Outcome::d_k_win};
  Numbers Outcome::*const values[3] = {&Outcome::d_v_raw, &Outcome::d_v_sel, &Outcome::d_v_win};
  for (int i = 0; i < 3; ++i) {
    put(d_k[i], keys[i]);
    put(d_v[i], values[i]);
  }
  if (p.phi == nk::Phi::conv) {
    all.d_k_conv = floats_of(d_conv[0], std::int64_t{p.d_k} * p.l);
    all.d_v_conv = floats_of(d_conv[1], std::int64_t{p.d_v} * p.l);
  }
  return all;
}

void check_gaps(const Produced& produced, std::vector<std::string>& problems) {
  for (std::size_t i = 0; i < produced.tensors.size(); ++i) {
    const std::string gaps = produced.tensors[i]->gaps_written();
    if (!gaps.empty()) problems.push_back("tensor " + std::to_string(i) + ": " + gaps);
  }
}

// What lies after the workspace stays poison.
struct Workspace {
  explicit Workspace(std::size_t size) : bytes(size), memory(size + 4096) {}
  bool overrun() const {
    std::vector<unsigned char> all(memory.bytes());
    memory.download(all.data(), all.size());
    for (std::size_t i = bytes; i < all.size(); ++i) {
      if (all[i] != 0xff) return true;
    }
    return false;
  }
  std::size_t bytes;
  DeviceMemory memory;
};

}  // namespace

Run run_whole(const Case& one, const CaseInputs& inputs, const RunOptions& options) {
  const auto& p = one.problem;
  const Device device(one, inputs);
  const Produced produced(one, device);
  const Workspace forward(nk::forward_workspace(p, options.saves));
  const bool backward = one.backward && options.saves;
  const Workspace back(backward ? nk::backward_workspace(p) : 0);
  const nk::Stream stream = new_stream();
  Run run;
  std::vector<unsigned char> first;
  for (int i = 0; i < options.repeats; ++i) {
    produced.poison();
    forward.memory.fill(0xff);
    back.memory.fill(0xff);
    nk::forward(p,
                device.inputs(),
                produced.saved(options.saves),
                produced.o->rows(),
                forward.memory.data(),
                stream);
    if (backward) {
      nk::backward(p,
                   device.inputs(),
                   produced.saved(true),
                   device.d_o.rows(),
                   produced.gradients(),
                   back.memory.data(),
                   stream);
    }
    synchronize(stream);
    if (options.repeats == 1) break;
    auto bytes = produced.bytes();
    if (i == 0) {
      first = std::move(bytes);
    } else if (bytes != first) {
      run.problems.push_back("repeat " + std::to_string(i) + " gives other bits");
      break;
    }
  }
  check_gaps(produced, run.problems);
  if (forward.overrun()) run.problems.emplace_back("the forward pass writes beyond its workspace");
  if (backward && back.overrun())
    run.problems.emplace_back("the backward pass writes beyond its workspace");
  run.outcome = produced.outcome(one, options.saves);
  return run;
}

namespace {

// The branches one by one.
class Steps {
 public:
  Steps(const Case& one, const CaseInputs& inputs)
      : one_(one),
        p_(one.problem),
        device_(one, inputs),
        out_(one, device_),
        stream_(new_stream()) {}

  Run run() {
    forward();
    if (one_.backward) backward();
    synchronize(stream_);
    Run run;
    check_gaps(out_, run.problems);
    for (const auto& workspace : workspaces_) {
      if (workspace->overrun()) run.problems.emplace_back("a step writes beyond its workspace");
    }
    run.outcome = out_.outcome(one_, true);
    auto scores = scores_->download();
    for (std::size_t b = 0; b < scores.size(); ++b)
      run.outcome.sequences[b].p_grp = std::move(scores[b]);
    return run;
  }

 private:
  void* workspace(std::size_t bytes) {
    workspaces_.push_back(std::make_unique<Workspace>(bytes));
    return workspaces_.back()->memory.data();
  }
  nk::AttendInputs inputs_of(int branch) const {
    nk::AttendInputs in;
    in.q = device_.q.rows();
    in.k = branch == 0 ? out_.k_cmp->rows() : (branch == 1 ? device_.k_sel : device_.k_win)->rows();
    in.v = branch == 0 ? out_.v_cmp->rows() : (branch == 1 ? device_.v_sel : device_.v_win)->rows();
    if (branch == 1) in.blocks = out_.blocks->rows();
    in.cu_seqlens = device_.cu_seqlens();
    return in;
  }
  static nk::Branch branch_of(int i) {
    return i == 0 ? nk::Branch::compressed : (i == 1 ? nk::Branch::selected : nk::Branch::window);
  }
  const void* conv(int i) const { return device_.conv[i].data(); }

  void forward() {
    const auto* cu = device_.cu_seqlens();
    nk::compress(
        p_, nk::Pooled::keys, device_.k_raw->rows(), conv(0), cu, out_.k_cmp->rows(), stream_);
    nk::compress(
        p_, nk::Pooled::values, device_.v_raw->rows(), conv(1), cu, out_.v_cmp->rows(), stream_);
    attend(0);
    const std::int64_t blocks = std::max<std::int64_t>(p_.block_count(), 1);
    scores_ =
        std::make_unique<DeviceTensor>(one_, Kind::float32, p_.groups, blocks, query_place(one_));
    nk::score(p_, device_.q.rows(), out_.k_cmp->rows(), out_.sums(0), cu, scores_->rows(), stream_);
    nk::select(p_, scores_->rows(), cu, out_.blocks->rows(), stream_);
    attend(1);
    attend(2);
    const nk::Rows branches[3] = {
        out_.branch[0]->rows(), out_.branch[1]->rows(), out_.branch[2]->rows()};
    nk::combine(p_, device_.gates.rows(), branches, cu, out_.o->rows(), stream_);
  }

  void attend(int i) {
    nk::attend(p_,
               branch_of(i),
               inputs_of(i),
               out_.branch[i]->rows(),
               out_.sums(i),
               workspace(nk::attend_workspace(p_, branch_of(i))),
               stream_);
  }

  void backward() {
    const auto* cu = device_.cu_seqlens();
    const auto rows =
        [&](std::int64_t heads, std::int64_t width, const DeviceTensor::Place& place) {
          more_.push_back(std::make_unique<DeviceTensor>(one_, Kind::element, heads, width, place));
          return more_.back()->rows();
        };
    const nk::Rows branches[3] = {
        out_.branch[0]->rows(), out_.branch[1]->rows(), out_.branch[2]->rows()};
    const nk::MutableRows d_branches[3] = {rows(device_.heads, p_.d_v, query_place(one_)),
                                           rows(device_.heads, p_.d_v, query_place(one_)),
                                           rows(device_.heads, p_.d_v, query_place(one_))};
    nk::combine_backward(p_,
                         device_.gates.rows(),
                         branches,
                         device_.d_o.rows(),
                         cu,
                         out_.d_gates->rows(),
                         d_branches,
                         stream_);
    const nk::MutableRows d_k_cmp = rows(p_.groups, p_.d_k, compressed_place(one_));
    const nk::MutableRows d_v_cmp = rows(p_.groups, p_.d_v, compressed_place(one_));
    for (int i = 0; i < 3; ++i) {
      d_q_.push_back(std::make_unique<DeviceTensor>(
          one_, Kind::element, device_.heads, p_.d_k, query_place(one_)));
      nk::attend_backward(p_,
                          branch_of(i),
                          inputs_of(i),
                          out_.branch[i]->rows(),
                          out_.sums(i),
                          d_branches[i],
                          d_q_.back()->rows(),
                          i == 0 ? d_k_cmp : out_.d_k[i]->rows(),
                          i == 0 ? d_v_cmp : out_.d_v[i]->rows(),
                          workspace(nk::attend_backward_workspace(p_, branch_of(i))),
                          stream_);
    }
    nk::compress_backward(p_,
                          nk::Pooled::keys,
                          device_.k_raw->rows(),
                          conv(0),
                          d_k_cmp,
                          cu,
                          out_.d_k[0]->rows(),
                          reinterpret_cast<float*>(out_.d_conv[0].data()),
                          workspace(nk::compress_backward_workspace(p_)),
                          stream_);
    nk::compress_backward(p_,
                          nk::Pooled::values,
                          device_.v_raw->rows(),
                          conv(1),
                          d_v_cmp,
                          cu,
                          out_.d_v[0]->rows(),
                          reinterpret_cast<float*>(out_.d_conv[1].data()),
                          workspace(nk::compress_backward_workspace(p_)),
                          stream_);
    sum_queries();
  }

  // dq of the whole is the sum of the branches'; for the comparison it is taken here.
  void sum_queries() {
    synchronize(stream_);
    std::vector<Numbers> sum = d_q_[0]->download();
    for (int i = 1; i < 3; ++i) {
      const auto more = d_q_[i]->download();
      for (std::size_t b = 0; b < sum.size(); ++b) {
        for (std::size_t k = 0; k < sum[b].size(); ++k) sum[b][k] += more[b][k];
      }
    }
    std::vector<const Numbers*> values;
    for (const auto& numbers : sum) values.push_back(&numbers);
    out_.d_q->upload(values);
  }

  const Case& one_;
  const nk::Problem& p_;
  Device device_;
  Produced out_;
  nk::Stream stream_;
  std::unique_ptr<DeviceTensor> scores_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;
  std::vector<std::unique_ptr<DeviceTensor>> more_;
  std::vector<std::unique_ptr<DeviceTensor>> d_q_;
};

}  // namespace

Run run_steps(const Case& one, const CaseInputs& inputs) {
  return Steps(one, inputs).run();
}

}  // namespace judge
