#include "harness/checks/attention/record/layer_record.h"

#include <algorithm>
#include <numeric>

#include "harness/checks/attention/record/sample_rows.h"
#include "nsa/base/error.h"

namespace harness::checks {
namespace {

using Shape = std::vector<std::int64_t>;

void require(const nsa::SafetensorsFile& file, const std::string& name, const Shape& wanted) {
  const Shape& found = file.at(name).shape;
  if (found == wanted) return;
  throw nsa::Error(file.at(name).where + ": found shape " + oracles::shape_text(found) +
                   ", wanted " + oracles::shape_text(wanted));
}

bool is_floating(nsa::DType dtype) {
  return dtype == nsa::DType::f64 || dtype == nsa::DType::f32 || dtype == nsa::DType::f16 ||
         dtype == nsa::DType::bf16;
}

// How a tensor of one layer is laid out: shape in the file, shape here, and whether it has one entry for each query.
struct Layout {
  Shape in_file;
  Shape here;
  bool of_queries = false;
};

// Of every tensor that a record may hold; R stands where S does in tensors of queries.
std::map<std::string, Layout> layouts(const LayerRecord& record) {
  const oracles::AttentionConfig& c = record.config;
  const oracles::Sizes here{
      record.batch, record.length, record.row_count(), c.n_kv_groups, c.heads_per_group()};
  oracles::Sizes in_file = here;
  in_file.rows = record.length;
  std::map<std::string, Layout> all;
  for (const oracles::StageRow& row : oracles::kStageTable) {
    if (row.stage == oracles::Stage::blocks) continue;  // no floating numbers
    Layout& layout = all[name_of(row)];
    layout.in_file = shape_of(row.stage, c, in_file);
    layout.of_queries = row.rows == oracles::RowsOf::queries && !is_of_choice(row);
    layout.here = layout.of_queries ? shape_of(row.stage, c, here) : layout.in_file;
    // Heads are one axis there.
    if (Shape& heads = layout.in_file; heads.size() == 5) {
      heads = {heads[0], heads[1] * heads[2], heads[3], heads[4]};
    }
  }
  const Shape x = {record.batch, record.length, c.dim};
  all["dx"] = {x, x};
  return all;
}

void take_weights(const nsa::SafetensorsFile& file, LayerRecord& record) {
  for (const auto& [name, shape] : oracles::weight_shapes(record.config)) {
    require(file, "w." + name, shape);
    record.weights[name] = {shape, nsa::to_doubles(file.at("w." + name))};
    if (!file.contains("g.w." + name)) continue;
    require(file, "g.w." + name, shape);
    record.tensors["g.w." + name] = {shape, nsa::to_doubles(file.at("g.w." + name))};
  }
}

// The rows of dy that are not zero in some sequence.
std::vector<std::int64_t> rows_that_count(const oracles::Tensor& dy) {
  const std::int64_t length = dy.shape[1];
  const std::int64_t width = dy.shape[2];
  std::vector<bool> counts(static_cast<std::size_t>(length), false);
  for (std::size_t i = 0; i < dy.data.size(); ++i) {
    if (dy.data[i] != 0.0) {  // a NaN is not zero
      counts[i / static_cast<std::size_t>(width) % static_cast<std::size_t>(length)] = true;
    }
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < length; ++t) {
    if (counts[static_cast<std::size_t>(t)]) rows.push_back(t);
  }
  return rows;
}

// All rows, or a sample that holds the rows whose gradient counts where those are few enough.
void choose_rows(const ReadOptions& options, LayerRecord& record, const oracles::Tensor* dy) {
  const std::int64_t most = std::max<std::int64_t>(1, options.most_rows / record.batch);
  const std::vector<std::int64_t> counting =
      dy == nullptr ? std::vector<std::int64_t>{} : rows_that_count(*dy);
  if (record.length <= most) {
    record.rows.resize(static_cast<std::size_t>(record.length));
    std::iota(record.rows.begin(), record.rows.end(), 0);
    return;
  }
  const bool few = static_cast<std::int64_t>(counting.size()) <= most;
  record.rows = sample_rows(
      record.config, record.length, options.seed, few ? counting : std::vector<std::int64_t>{});
  record.dy_elsewhere =
      !few &&
      !std::includes(record.rows.begin(), record.rows.end(), counting.begin(), counting.end());
}

void take_tensors(const nsa::SafetensorsFile& file, LayerRecord& record) {
  for (const oracles::StageRow& row : oracles::kStageTable) {
    const bool is_read_here = row.stage != oracles::Stage::blocks;
    if (is_read_here && !is_optional(row)) static_cast<void>(file.at(name_of(row)));
  }
  for (const auto& [name, layout] : layouts(record)) {
    if (!file.contains(name)) continue;
    require(file, name, layout.in_file);
    const nsa::TensorView& view = file.at(name);
    if (!is_floating(view.dtype)) {
      throw nsa::Error(view.where + ": found dtype " + std::string(nsa::dtype_name(view.dtype)) +
                       ", wanted a floating one");
    }
    oracles::Tensor all{layout.in_file, nsa::to_doubles(view)};
    if (layout.of_queries && record.is_sample()) {
      all = at_rows(all, record.length, layout.here.back(), record.rows);
    }
    record.tensors[name] = {layout.here, std::move(all.data)};
  }
}

oracles::Number number_of(nsa::DType dtype) {
  switch (dtype) {
    case nsa::DType::f64: return oracles::Number::f64;
    case nsa::DType::bf16: return oracles::Number::bf16;
    case nsa::DType::f16: return oracles::Number::f16;
    default: return oracles::Number::f32;
  }
}

// Under autocast x and its gradient are wider than what the layer makes of x.
void take_kept(const nsa::SafetensorsFile& file, const ReadOptions& options, LayerRecord& record) {
  oracles::Kept kept;
  for (const char* name : {"x", "q", "y"}) {
    const oracles::Number number = number_of(file.at(name).dtype);
    if (oracles::unit_roundoff(number) > oracles::unit_roundoff(kept.results)) {
      kept.results = number;
    }
  }
  const bool narrow = kept.results == oracles::Number::bf16 || kept.results == oracles::Number::f16;
  if (!narrow || !options.narrow_products) return;
  kept.input = number_of(file.at(file.contains("dx") ? "dx" : "x").dtype);
  kept.narrow_products = *options.narrow_products;
  record.kept = kept;
}

void take_precision(const nsa::SafetensorsFile& file, LayerRecord& record) {
  record.unit_roundoff = 0.0;
  for (const char* name : {"x", "q", "y"}) {
    const double u = Reals(file.at(name)).unit_roundoff();
    if (u <= record.unit_roundoff) continue;
    record.unit_roundoff = u;
    switch (file.at(name).dtype) {
      case nsa::DType::f64: record.arithmetic = oracles::Arithmetic::float64(); break;
      case nsa::DType::bf16: record.arithmetic = oracles::Arithmetic::bfloat16(); break;
      case nsa::DType::f16: record.arithmetic = oracles::Arithmetic::float16(); break;
      default: record.arithmetic = oracles::Arithmetic::float32();
    }
  }
}

// Visits every (batch, group, row) with its list of blocks.
template <typename Visit>
void for_each_list(const LayerRecord& record, Visit visit) {
  const std::int64_t* list = record.blocks.data.data();
  const auto n = static_cast<std::size_t>(record.config.n_sel);
  for (std::int64_t b = 0; b < record.batch; ++b) {
    for (std::int64_t g = 0; g < record.config.n_kv_groups; ++g) {
      for (std::int64_t t = 0; t < record.length; ++t, list += n) {
        visit(BadRow{b, g, t}, std::span(list, n));
      }
    }
  }
}

bool in_range(const LayerRecord& record, std::int64_t t, std::span<const std::int64_t> list) {
  const std::int64_t last = t / record.config.l_sel;
  return std::all_of(
      list.begin(), list.end(), [&](std::int64_t block) { return block >= -1 && block <= last; });
}

bool is_list(std::span<const std::int64_t> list) {
  const auto end = std::find(list.begin(), list.end(), -1);
  const bool padded = std::all_of(end, list.end(), [](std::int64_t block) { return block == -1; });
  return padded && std::adjacent_find(list.begin(), end, std::greater_equal<>()) == end;
}

LayerRecord started(const nsa::SafetensorsFile& file,
                    const nsa::ModelConfig& model,
                    const ReadOptions& options) {
  LayerRecord record;
  record.config = oracle_config(model);
  record.gate_override = options.gate_override;
  record.forward_only = options.forward_only;
  record.from_input = options.from_input;
  const nsa::TensorView& x = file.at("x");
  if (x.shape.size() != 3 || x.shape[0] < 1 || x.shape[1] < 1) {
    throw nsa::Error(x.where + ": wanted [B,S,dim]");
  }
  record.batch = x.shape[0];
  record.length = x.shape[1];
  return record;
}

}  // namespace

oracles::AttentionConfig oracle_config(const nsa::ModelConfig& model) {
  oracles::AttentionConfig config;
  config.dim = model.dim;
  config.n_heads = model.n_heads;
  config.n_kv_groups = model.n_kv_groups;
  config.d_k = model.d_k;
  config.d_v = model.d_v;
  config.l = model.l;
  config.d = model.d;
  config.l_sel = model.l_sel;
  config.n_sel = model.n_sel;
  config.w = model.w;
  config.init_blocks = model.init_blocks;
  config.local_blocks = model.local_blocks;
  config.rope_base = model.rope_base;
  config.rope_scale = model.rope_scale;
  config.gate = model.gate == nsa::Gate::head_sigmoid ? oracles::Gate::head_sigmoid
                                                      : oracles::Gate::group_softmax;
  config.gate_temp = model.gate_temp;
  config.gate_hidden = model.gate_hidden;
  config.phi = model.phi == nsa::Phi::conv  ? oracles::Phi::conv
               : model.phi == nsa::Phi::mlp ? oracles::Phi::mlp
                                            : oracles::Phi::avg;
  config.eq9 = model.eq9 == nsa::Eq9::overlap ? oracles::Eq9::overlap : oracles::Eq9::fractional;
  return config;
}

LayerRecord read_shared(const nsa::SafetensorsFile& file,
                        const nsa::ModelConfig& model,
                        const ReadOptions& options) {
  LayerRecord record = started(file, model, options);
  take_precision(file, record);
  take_kept(file, options, record);
  take_weights(file, record);
  return record;
}

LayerRecord read_layer(const nsa::SafetensorsFile& file,
                       const nsa::ModelConfig& model,
                       const ReadOptions& options) {
  LayerRecord record = started(file, model, options);
  const nsa::TensorView& x = file.at("x");
  const Shape whole = {record.batch, record.length, model.dim};
  require(file, "x", whole);
  record.x = {x.shape, nsa::to_doubles(x)};
  std::optional<oracles::Tensor> dy;
  if (file.contains("dy")) {
    require(file, "dy", whole);
    dy = oracles::Tensor{whole, nsa::to_doubles(file.at("dy"))};
  }
  choose_rows(options, record, dy ? &*dy : nullptr);
  if (dy) {
    record.dy = record.is_sample() ? at_rows(*dy, record.length, model.dim, record.rows) : *dy;
    record.dy->shape = {record.batch, record.row_count(), model.dim};
  }
  take_precision(file, record);
  take_kept(file, options, record);
  require(file, "blocks", {record.batch, model.n_kv_groups, record.length, model.n_sel});
  record.blocks = {file.at("blocks").shape, nsa::to_int64s(file.at("blocks"))};
  take_weights(file, record);
  take_tensors(file, record);
  return record;
}

UnusableRows unusable_rows(const LayerRecord& record) {
  UnusableRows rows;
  for_each_list(record, [&](const BadRow& at, std::span<const std::int64_t> list) {
    if (!in_range(record, at.row, list)) {
      rows.out_of_range.push_back(at);
    } else if (!is_list(list)) {
      rows.malformed.push_back(at);
    }
  });
  return rows;
}

oracles::IntTensor usable_blocks(const LayerRecord& record) {
  const std::int64_t n = record.config.n_sel;
  oracles::IntTensor kept =
      record.is_sample() ? at_rows(record.blocks, record.length, n, record.rows) : record.blocks;
  kept.shape = {record.batch, record.config.n_kv_groups, record.row_count(), n};
  const std::int64_t r = record.row_count();
  for (std::int64_t place = 0; place < record.lists() * r; ++place) {
    const std::span list(kept.data.data() + place * n, static_cast<std::size_t>(n));
    const std::int64_t t = record.rows[static_cast<std::size_t>(place % r)];
    if (in_range(record, t, list) && is_list(list)) continue;
    std::vector<std::int64_t> usable;
    std::copy_if(list.begin(), list.end(), std::back_inserter(usable), [&](std::int64_t block) {
      return block >= 0 && block <= t / record.config.l_sel;
    });
    std::sort(usable.begin(), usable.end());
    usable.erase(std::unique(usable.begin(), usable.end()), usable.end());
    std::fill(list.begin(), list.end(), -1);
    std::copy(usable.begin(), usable.end(), list.begin());
  }
  return kept;
}

oracles::AttentionOptions options_of(const LayerRecord& record) {
  oracles::AttentionOptions options;
  if (record.is_sample()) options.rows = record.rows;
  options.replay = usable_blocks(record);
  options.gate_override = record.gate_override;
  return options;
}

void give_recorded(const LayerRecord& record, oracles::Stages& stages) {
  for (const oracles::StageRow& row : oracles::kStageTable) {
    const std::string name = name_of(row);
    if (!is_of_choice(row) && record.has(name)) stages.record(row.stage, record.at(name));
  }
}

}  // namespace harness::checks
