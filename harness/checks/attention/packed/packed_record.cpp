#include "harness/checks/attention/packed/packed_record.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "nsa/base/error.h"

namespace harness::checks {
namespace {

using oracles::DocumentPlace;
using oracles::Shape;
using oracles::Tensor;

Tensor tensor_of(const nsa::SafetensorsFile& file, const std::string& name, const Shape& wanted) {
  const nsa::TensorView& view = file.at(name);
  if (view.shape == wanted) return {view.shape, nsa::to_doubles(view)};
  throw nsa::Error(view.where + ": found shape " + oracles::shape_text(view.shape) + ", wanted " +
                   oracles::shape_text(wanted));
}

// The heads of a group apart: [1,H,s,W] -> [1,G,h,s,W].
Tensor by_groups(Tensor tensor, const oracles::AttentionConfig& config) {
  const Shape apart = {
      1, config.n_kv_groups, config.heads_per_group(), tensor.shape.at(2), tensor.shape.at(3)};
  return oracles::reshaped(std::move(tensor), apart);
}

// The first columns of [1,G,s,N]: what lies behind is of longer documents.
Tensor first_columns(const Tensor& all, std::int64_t columns) {
  Tensor kept{{1, all.shape.at(1), all.shape.at(2), columns}, {}};
  for (auto row = all.data.begin(); row != all.data.end(); row += all.shape.at(3)) {
    kept.data.insert(kept.data.end(), row, row + columns);
  }
  return kept;
}

class PackedReader {
 public:
  PackedReader(const nsa::SafetensorsFile& file,
               const nsa::ModelConfig& model,
               const ReadOptions& options,
               const oracles::DocumentLengths& lengths)
      : file_(file), places_(oracles::document_places(lengths)) {
    packed_.shared = read_shared(file, model, options);
    oracles::require_documents(lengths, {packed_.shared.batch, packed_.shared.length});
    packed_.shared.tensors["dx"] = whole("dx");
  }

  PackedRecord read() {
    for (const DocumentPlace& at : places_) packed_.documents.push_back(document(at));
    for (const char* name : {"k_cmp", "v_cmp"}) take_compressed(name);
    take_scores();
    return std::move(packed_);
  }

 private:
  [[nodiscard]] const oracles::AttentionConfig& config() const { return packed_.shared.config; }
  [[nodiscard]] Tensor whole(const std::string& name) const {
    return tensor_of(file_, name, {packed_.shared.batch, packed_.shared.length, config().dim});
  }

  DocumentRecord document(const DocumentPlace& at) {
    DocumentRecord document{at, 0, packed_.shared};
    LayerRecord& own = document.record;
    own.tensors.clear();
    own.batch = 1;
    own.length = at.length;
    own.rows.resize(static_cast<std::size_t>(at.length));
    std::iota(own.rows.begin(), own.rows.end(), 0);
    own.forward_only = true;
    own.x = of_tokens("x", at);
    own.dy = of_tokens("dy", at);
    own.tensors["y"] = of_tokens("y", at);
    const oracles::Sizes sizes{
        1, at.length, at.length, config().n_kv_groups, config().heads_per_group()};
    for (const oracles::StageRow& row : oracles::kStageTable) {
      const std::string name = name_of(row);
      const bool of_lists_of_tokens = row.rows != oracles::RowsOf::compressed &&
                                      row.stage != oracles::Stage::y && !is_of_choice(row);
      if (!of_lists_of_tokens || (is_optional(row) && !file_.contains(name))) continue;
      const Shape shape = shape_of(row.stage, config(), sizes);
      const bool of_heads = shape.size() == 5;
      Tensor own_rows =
          of_lists(name, of_heads ? config().n_heads : config().n_kv_groups, shape.back(), at);
      own.tensors[name] = of_heads ? by_groups(std::move(own_rows), config()) : std::move(own_rows);
    }
    own.blocks = oracles::tokens_of(blocks(), at);
    return document;
  }

  [[nodiscard]] Tensor of_tokens(const std::string& name, const DocumentPlace& at) {
    Tensor all = whole(name);
    all.shape = {all.shape[0], 1, all.shape[1], all.shape[2]};
    Tensor own = oracles::tokens_of(all, at);
    own.shape = {1, at.length, config().dim};
    return own;
  }
  [[nodiscard]] Tensor of_lists(const std::string& name,
                                std::int64_t lists,
                                std::int64_t width,
                                const DocumentPlace& at) const {
    return oracles::tokens_of(
        tensor_of(file_, name, {packed_.shared.batch, lists, packed_.shared.length, width}), at);
  }

  [[nodiscard]] oracles::IntTensor blocks() const {
    const nsa::TensorView& view = file_.at("blocks");
    const Shape wanted = {
        packed_.shared.batch, config().n_kv_groups, packed_.shared.length, config().n_sel};
    if (view.shape == wanted) return {view.shape, nsa::to_int64s(view)};
    throw nsa::Error(view.where + ": found shape " + oracles::shape_text(view.shape) + ", wanted " +
                     oracles::shape_text(wanted));
  }

  // Documents have other numbers of compressed tokens than of tokens; those of a sequence are one after the other.
  void take_compressed(const std::string& name) {
    std::vector<std::int64_t> of_row(static_cast<std::size_t>(packed_.shared.batch), 0);
    for (DocumentRecord& document : packed_.documents) {
      std::int64_t& before = of_row[static_cast<std::size_t>(document.at.row)];
      document.compressed_before = before;
      before += config().compressed_count(document.at.length);
    }
    const std::int64_t width = name[0] == 'v' ? config().d_v : config().d_k;
    const Tensor all = tensor_of(file_,
                                 name,
                                 {packed_.shared.batch,
                                  config().n_kv_groups,
                                  *std::max_element(of_row.begin(), of_row.end()),
                                  width});
    for (DocumentRecord& document : packed_.documents) {
      DocumentPlace at = document.at;
      at.begin = document.compressed_before;
      at.length = config().compressed_count(document.at.length);
      document.record.tensors[name] = oracles::tokens_of(all, at);
    }
  }

  void take_scores() {
    std::int64_t most = 0;
    for (const DocumentPlace& at : places_) most = std::max(most, config().block_count(at.length));
    for (DocumentRecord& document : packed_.documents) {
      document.record.tensors["p_grp"] =
          first_columns(of_lists("p_grp", config().n_kv_groups, most, document.at),
                        config().block_count(document.at.length));
    }
  }

  const nsa::SafetensorsFile& file_;
  std::vector<DocumentPlace> places_;
  PackedRecord packed_;
};

}  // namespace

PackedRecord read_packed_layer(const nsa::SafetensorsFile& file,
                               const nsa::ModelConfig& model,
                               const ReadOptions& options,
                               const oracles::DocumentLengths& lengths) {
  try {
    return PackedReader(file, model, options, lengths).read();
  } catch (const std::invalid_argument& error) {
    throw nsa::Error(error.what());
  }
}

oracles::Tensor of_sequence(const PackedRecord& packed,
                            const DocumentRecord& of,
                            const std::string& name) {
  std::vector<const Tensor*> parts;
  std::int64_t size = 0;
  for (const DocumentRecord& document : packed.documents) {
    if (document.at.row != of.at.row) continue;
    parts.push_back(&document.record.at(name));
    size += parts.back()->shape.at(2);
  }
  const Shape& shape = parts.front()->shape;
  Tensor all = oracles::zeros({1, shape.at(1), size, shape.at(3)});
  DocumentPlace at;
  for (const Tensor* part : parts) {
    at.length = part->shape[2];
    oracles::put_tokens(*part, at, all);
    at.begin += at.length;
  }
  return all;
}

}  // namespace harness::checks
