#include "harness/checks/layer_record.h"

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

void require_shapes(const nsa::SafetensorsFile& file, const LayerRecord& record) {
  const oracles::AttentionConfig& c = record.config;
  const std::int64_t b = record.batch;
  const std::int64_t s = record.length;
  const std::int64_t compressed = c.compressed_count(s);
  require(file, "q", {b, c.n_heads, s, c.d_k});
  require(file, "k_cmp", {b, c.n_kv_groups, compressed, c.d_k});
  require(file, "v_cmp", {b, c.n_kv_groups, compressed, c.d_v});
  require(file, "p_grp", {b, c.n_kv_groups, s, c.block_count(s)});
  require(file, "blocks", {b, c.n_kv_groups, s, c.n_sel});
  for (const char* name : {"o_cmp", "o_sel", "o_win"})
    require(file, name, {b, c.n_heads, s, c.d_v});
  if (c.gate == oracles::Gate::group_softmax) require(file, "gate", {b, c.n_kv_groups, s, 3});
  require(file, "y", {b, s, c.dim});
  for (const char* name : {"dy", "dx"}) {
    if (file.contains(name)) require(file, name, {b, s, c.dim});
  }
}

void take_weights(const nsa::SafetensorsFile& file, LayerRecord& record) {
  for (const auto& [name, shape] : oracles::weight_shapes(record.config)) {
    require(file, "w." + name, shape);
    record.weights[name] = {shape, nsa::to_doubles(file.at("w." + name))};
    if (file.contains("g.w." + name)) require(file, "g.w." + name, shape);
  }
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

LayerRecord read_layer(const nsa::SafetensorsFile& file, const nsa::ModelConfig& model) {
  LayerRecord record;
  record.config = oracle_config(model);
  const nsa::TensorView& x = file.at("x");
  if (x.shape.size() != 3) throw nsa::Error(x.where + ": wanted [B,S,dim]");
  record.batch = x.shape[0];
  record.length = x.shape[1];
  require(file, "x", {record.batch, record.length, model.dim});
  require_shapes(file, record);
  record.unit_roundoff = Reals(x).unit_roundoff();
  record.arithmetic =
      x.dtype == nsa::DType::f64 ? oracles::Arithmetic::float64() : oracles::Arithmetic::float32();
  record.x = {x.shape, nsa::to_doubles(x)};
  record.blocks = {file.at("blocks").shape, nsa::to_int64s(file.at("blocks"))};
  take_weights(file, record);
  if (file.contains("dy")) record.dy = oracles::Tensor{x.shape, nsa::to_doubles(file.at("dy"))};
  for (const auto& [name, view] : file.tensors()) {
    const bool floating = view.dtype == nsa::DType::f32 || view.dtype == nsa::DType::f64;
    if (floating && name.rfind("w.", 0) != 0 && name != "x" && name != "dy") {
      record.tensors[name] = nsa::to_doubles(view);
    }
  }
  return record;
}

std::vector<BadRow> malformed_rows(const LayerRecord& record) {
  const oracles::AttentionConfig& c = record.config;
  const std::int64_t blocks = c.block_count(record.length);
  std::vector<BadRow> bad;
  const std::int64_t* row = record.blocks.data.data();
  for (std::int64_t b = 0; b < record.batch; ++b) {
    for (std::int64_t g = 0; g < c.n_kv_groups; ++g) {
      for (std::int64_t t = 0; t < record.length; ++t, row += c.n_sel) {
        std::int64_t last = -1;
        bool ended = false;
        bool good = true;
        for (std::int64_t i = 0; i < c.n_sel; ++i) {
          if (row[i] < 0) {
            good = good && row[i] == -1;
            ended = true;
          } else {
            good = good && !ended && row[i] > last && row[i] < blocks;
            last = row[i];
          }
        }
        if (!good) bad.push_back({b, g, t});
      }
    }
  }
  return bad;
}

}  // namespace harness::checks
