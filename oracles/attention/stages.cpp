#include "oracles/attention/stages.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "oracles/attention/block_scores.h"
#include "oracles/attention/compress.h"
#include "oracles/attention/gate.h"
#include "oracles/attention/rope.h"

namespace oracles {
namespace {

void validate_replay(const IntTensor& replay, const AttentionConfig& config, const Sizes& n) {
  require_shape(replay, {n.batch, n.groups, n.rows, config.n_sel}, "replay");
  const std::int64_t blocks = config.block_count(n.length);
  for (auto row = replay.data.begin(); row != replay.data.end(); row += config.n_sel) {
    std::int64_t previous = -1;
    bool ended = false;
    for (auto block = row; block != row + config.n_sel; ++block) {
      const bool ends = *block == -1;
      if (!ends && (ended || *block <= previous || *block >= blocks)) {
        throw std::invalid_argument("replay: found block " + std::to_string(*block) + " after " +
                                    (ended ? "-1" : std::to_string(previous)) +
                                    ", wanted blocks below " + std::to_string(blocks) +
                                    ", strictly ascending, then -1");
      }
      ended = ends;
      previous = *block;
    }
  }
}

// Rows of [.., R, W] at some places of R, W being `width` and R `count`.
template <typename T>
std::vector<T> picked_rows(const std::vector<T>& data,
                           std::int64_t count,
                           std::int64_t width,
                           const std::vector<std::size_t>& places) {
  std::vector<T> picked;
  for (auto begin = data.begin(); begin != data.end(); begin += count * width) {
    for (const std::size_t place : places) {
      const auto row = begin + static_cast<std::int64_t>(place) * width;
      picked.insert(picked.end(), row, row + width);
    }
  }
  return picked;
}

template <typename T>
Array<T> picked_rows(const Array<T>& from, const std::vector<std::size_t>& places) {
  Shape shape = from.shape;
  std::int64_t& count = shape[shape.size() - 2];
  std::vector<T> data = picked_rows(from.data, count, shape.back(), places);
  count = static_cast<std::int64_t>(places.size());
  return {shape, std::move(data)};
}

}  // namespace

Branch branch_of(Stage stage) {
  const std::string_view branch = row_of(stage).branch;
  return branch == "sel" ? Branch::sel : branch == "win" ? Branch::win : Branch::cmp;
}

Stage key_stage(Branch branch) {
  return std::array{Stage::k_cmp, Stage::k_sel, Stage::k_win}[index_of(branch)];
}
Stage value_stage(Branch branch) {
  return std::array{Stage::v_cmp, Stage::v_sel, Stage::v_win}[index_of(branch)];
}
Stage output_stage(Branch branch) {
  return std::array{Stage::o_cmp, Stage::o_sel, Stage::o_win}[index_of(branch)];
}

bool is_of_queries(Stage stage) {
  return row_of(stage).rows == RowsOf::queries;
}

std::string weight_of(Stage stage) {
  const StageRow& row = row_of(stage);
  if (!is_projected(row))
    throw std::invalid_argument(std::string(row.tensor) + " is not projected");
  return std::string(row.weights) + ".weight";
}

Tensor rows_at(const Tensor& tensor, const std::vector<std::size_t>& places) {
  return picked_rows(tensor, places);
}

Stages::Stages(const AttentionConfig& config,
               const Weights& weights,
               const Tensor& x,
               AttentionOptions options)
    : layer_{config, weights, options.threads, options.kept}, x_(x), options_(std::move(options)) {
  validate(config);
  if (x.shape.size() != 3 || x.shape[0] < 1 || x.shape[1] < 1 || x.shape[2] != config.dim) {
    throw std::invalid_argument("x: found shape " + shape_text(x.shape) + ", wanted [B,S," +
                                std::to_string(config.dim) + "] with B and S at least 1");
  }
  rows_ = requested_rows(options_.rows, x.shape[1]);
  sizes_ = {x.shape[0],
            x.shape[1],
            static_cast<std::int64_t>(rows_.size()),
            config.n_kv_groups,
            config.heads_per_group()};
  if (!has_all_rows()) {
    x_BRE_ = gather_rows(x, rows_);
  }
  if (options_.replay) {
    validate_replay(*options_.replay, config, sizes_);
  }
}

void Stages::record(Stage stage, const Tensor& tensor) {
  if (stage == Stage::blocks) {
    throw std::invalid_argument("blocks are replayed");
  }
  require_shape(tensor, shape_of(stage), std::string(row_of(stage).tensor));
  recorded_[stage] = &tensor;
}

Shape shape_of(Stage stage, const AttentionConfig& c, const Sizes& n) {
  const std::int64_t compressed = c.compressed_count(n.length);
  switch (stage) {
    case Stage::q: return {n.batch, n.groups, n.heads, n.rows, c.d_k};
    case Stage::k_raw:
    case Stage::k_sel:
    case Stage::k_win: return {n.batch, n.groups, n.length, c.d_k};
    case Stage::v_raw:
    case Stage::v_sel:
    case Stage::v_win: return {n.batch, n.groups, n.length, c.d_v};
    case Stage::k_cmp: return {n.batch, n.groups, compressed, c.d_k};
    case Stage::v_cmp: return {n.batch, n.groups, compressed, c.d_v};
    case Stage::p_grp: return {n.batch, n.groups, n.rows, c.block_count(n.length)};
    case Stage::blocks: return {n.batch, n.groups, n.rows, c.n_sel};
    case Stage::gate:
      return c.gate == Gate::group_softmax ? Shape{n.batch, n.groups, n.rows, 3}
                                           : Shape{n.batch, n.groups, n.heads, n.rows, 3};
    case Stage::y: return {n.batch, n.rows, c.dim};
    default: return {n.batch, n.groups, n.heads, n.rows, c.d_v};
  }
}

const Tensor* Stages::known_input(Stage stage) const {
  if (const auto at = recorded_.find(stage); at != recorded_.end()) {
    return at->second;
  }
  const auto own = own_.find(stage);
  return own == own_.end() ? nullptr : &own->second;
}

const Tensor& Stages::input(Stage stage) const {
  const Tensor* const known = known_input(stage);
  return known != nullptr ? *known : own_.emplace(stage, right(stage)).first->second;
}

Tensor Stages::right(Stage stage) const {
  switch (stage) {
    case Stage::q: {
      Tensor q = projected(stage);
      rotate(q, config(), rows_, Turn::forward);
      return layer_.kept.of(reshaped(std::move(q), shape_of(stage)));
    }
    case Stage::k_raw:
    case Stage::k_sel:
    case Stage::k_win: {
      Tensor k = projected(stage);
      rotate(k, config(), token_positions(), Turn::forward);
      return layer_.kept.of(std::move(k));
    }
    case Stage::v_raw:
    case Stage::v_sel:
    case Stage::v_win: return projected(stage);
    case Stage::k_cmp: return compress(layer_, PhiOf::keys, input(Stage::k_raw));
    case Stage::v_cmp: return compress(layer_, PhiOf::values, input(Stage::v_raw));
    case Stage::p_grp: return scores();
    case Stage::blocks: return chosen();
    case Stage::o_cmp:
    case Stage::o_sel:
    case Stage::o_win: return attended_over(branch_of(stage));
    case Stage::gate:
      return options_.gate_override
                 ? constant_gate(config(), {input(Stage::q), x_of_rows()}, *options_.gate_override)
                 : learned_gate();
    case Stage::y: return put_out(mixed(input(Stage::gate)));
  }
  throw std::invalid_argument("no such stage");
}

std::vector<std::int64_t> Stages::token_positions() const {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(sizes_.length));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

std::unique_ptr<const Stages> Stages::at_rows(const std::vector<std::size_t>& places) const {
  AttentionOptions options = options_;
  options.rows.clear();
  for (const std::size_t place : places) {
    options.rows.push_back(rows_[place]);
  }
  options.replay.reset();
  if (options_.replay || attended_) {
    options.replay = picked_rows(attended(), places);
  }
  auto some = std::make_unique<Stages>(config(), weights(), x_, std::move(options));
  for (const StageRow& row : kStageTable) {
    const Stage stage = row.stage;
    const Tensor* const known = known_input(stage);
    if (known != nullptr && !is_of_queries(stage)) {
      some->recorded_[stage] = known;
    } else if (known != nullptr) {
      some->own_[stage] = picked_rows(*known, places);
    }
  }
  return some;
}

Tensor Stages::projected(Stage stage) const {
  const bool of_queries = stage == Stage::q;
  return split_heads(
      kept_linear(layer_, of_queries ? x_of_rows() : x_, weights().at(weight_of(stage))),
      of_queries ? config().n_heads : config().n_kv_groups);
}

const IntTensor& Stages::attended() const {
  if (options_.replay) {
    return *options_.replay;
  }
  if (!attended_) {
    const Tensor& blocks = input(Stage::blocks);
    attended_ = IntTensor{blocks.shape, {blocks.data.begin(), blocks.data.end()}};
  }
  return *attended_;
}

Query Stages::query(Branch branch, std::int64_t group, std::int64_t row) const {
  const bool compressed = branch == Branch::cmp;
  Query query{config(),
              branch,
              rows_[row],
              compressed ? config().compressed_count(sizes_.length) : sizes_.length,
              {}};
  if (branch == Branch::sel) {
    const std::int64_t place = group * sizes_.rows + row;
    query.blocks = {attended().data.data() + place * config().n_sel,
                    static_cast<std::size_t>(config().n_sel)};
  }
  return query;
}

const std::vector<KeyBank>& Stages::banks(Branch branch) const {
  auto at = banks_.find(branch);
  if (at == banks_.end()) {
    at = banks_.emplace(branch, key_banks(input(key_stage(branch)), input(value_stage(branch))))
             .first;
  }
  return at->second;
}

Tensor Stages::learned_gate() const {
  return layer_.kept.of(gate_as_computed());
}

Tensor Stages::gate_as_computed() const {
  return oracles::gate(layer_, {input(Stage::q), x_of_rows()});
}

// o[b,t,hq] = gate_cmp o_cmp + gate_sel o_sel + gate_win o_win
Tensor Stages::mixed(const Tensor& gate) const {
  const std::array<const double*, 3> outputs{input(Stage::o_cmp).data.data(),
                                             input(Stage::o_sel).data.data(),
                                             input(Stage::o_win).data.data()};
  const GateIndex index(config(), sizes_.rows);
  const std::int64_t width = config().d_v;
  Tensor mixed = zeros({sizes_.batch, config().n_heads, sizes_.rows, width});
  for (std::int64_t place = 0; place < sizes_.batch_groups() * sizes_.heads * sizes_.rows;
       ++place) {
    const std::int64_t head = place / sizes_.rows;
    const double* const g =
        gate.data.data() + index.at(head / sizes_.heads, head % sizes_.heads, place % sizes_.rows);
    for (std::int64_t c = place * width; c < (place + 1) * width; ++c) {
      mixed.data[c] = g[0] * outputs[0][c] + g[1] * outputs[1][c] + g[2] * outputs[2][c];
    }
  }
  return layer_.kept.of(std::move(mixed));
}

Tensor Stages::put_out(const Tensor& heads_BHRV) const {
  return kept_linear(layer_, merge_heads(heads_BHRV), weights().at("out.weight"));
}

Tensor Stages::scores() const {
  Tensor scores = zeros(shape_of(Stage::p_grp));
  const OverlapMap map(config(), sizes_.length);
  const Tensor& q = input(Stage::q);
  const std::vector<KeyBank>& keys = banks(Branch::cmp);
  const std::int64_t blocks = scores.shape.back();
  for_each_row(sizes_, layer_.threads, [&](std::int64_t group, std::int64_t row, auto& work) {
    scaled_logits(
        keys[group], visible_keys(query(Branch::cmp, group, row)), head_rows(q, group, row), work);
    softmax_rows(work, sizes_.heads);
    add_block_scores(map,
                     work,
                     sizes_.heads,
                     {scores.data.data() + (group * sizes_.rows + row) * blocks,
                      static_cast<std::size_t>(blocks)});
  });
  return scores;
}

Selection Stages::selection(std::int64_t place) const {
  const Tensor& scores = input(Stage::p_grp);
  const std::int64_t blocks = scores.shape.back();
  return select_blocks(config(),
                       rows_[place % sizes_.rows],
                       {scores.data.data() + place * blocks, static_cast<std::size_t>(blocks)});
}

Tensor Stages::chosen() const {
  Tensor chosen = filled(shape_of(Stage::blocks), -1.0);
  for (std::int64_t place = 0; place < sizes_.batch_groups() * sizes_.rows; ++place) {
    const std::vector<std::int64_t> list = selection(place).blocks;
    std::copy(list.begin(), list.end(), chosen.data.begin() + place * config().n_sel);
  }
  return chosen;
}

Tensor Stages::margins() const {
  Tensor margins = zeros({sizes_.batch, sizes_.groups, sizes_.rows});
  for (std::size_t place = 0; place < margins.data.size(); ++place) {
    margins.data[place] = selection(static_cast<std::int64_t>(place)).margin;
  }
  return margins;
}

Tensor Stages::attended_over(Branch branch) const {
  Tensor out = zeros(shape_of(output_stage(branch)));
  const Tensor& q = input(Stage::q);
  const std::vector<KeyBank>& keys = banks(branch);
  if (branch == Branch::sel) {
    (void)attended();  // computed before threads ask for it
  }
  const Kept& kept = layer_.kept;
  for_each_row(sizes_, layer_.threads, [&](std::int64_t group, std::int64_t row, auto& work) {
    const KeyList visible = visible_keys(query(branch, group, row));
    scaled_logits(keys[group], visible, head_rows(q, group, row), work);
    softmax_rows(work, sizes_.heads);
    if (kept.narrow(branch)) {
      kept.round(work);
    }
    weighted_values(keys[group], visible, work, head_rows(out, group, row));
  });
  return kept.of(std::move(out));
}

}  // namespace oracles
