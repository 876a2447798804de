#include "harness/kinds/kept_memory.h"

namespace harness {

template <typename Result, typename... Arguments>
void KeptMemory::around(const char* seam,
                        std::function<Result(const nsa::SeamContext&, Arguments...)>& function) {
  function = [this, seam, inner = std::move(function)](const nsa::SeamContext& context,
                                                       Arguments... arguments) {
    if (!counts_) return inner(context, arguments...);
    const std::int64_t before = memory_.held_bytes();
    const std::int64_t outside = std::exchange(inside_, 0);
    Result result = inner(context, arguments...);
    const std::int64_t left = memory_.held_bytes() - before;
    bytes_[{seam, context.layer}] += left - inside_;
    inside_ = outside + left;
    return result;
  };
}

void KeptMemory::watch(nsa::NsaLm& model) {
  for (int layer = 0; layer < static_cast<int>(model->config().n_layers); ++layer) {
    nsa::AttentionSeams& seams = model->attention(layer)->seams();
    around("project", seams.project);
    around("rope", seams.rope);
    around("compress", seams.compress);
    around("score", seams.score);
    around("select", seams.select);
    around("attend_cmp", seams.attend_cmp);
    around("attend_sel", seams.attend_sel);
    around("attend_win", seams.attend_win);
    around("gate", seams.gate);
    around("attention", seams.attention);
  }
}

}  // namespace harness
