#include "harness/kinds/decode.h"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "harness/kinds/lone_rank.h"
#include "harness/worker/record/layer_recorder.h"
#include "harness/worker/record/tensor_file.h"
#include "nsa/model/decode.h"

namespace harness {
namespace {

using torch::Tensor;

using nsa::AttentionTrace;

// Results with a row for every token: of a prompt, then of single tokens.
struct RowResult {
  const char* name;
  Tensor AttentionTrace::*tensor;
};
constexpr std::array kRowResults = {RowResult{"x", &AttentionTrace::x_BSE},
                                    RowResult{"q", &AttentionTrace::q_BHSD},
                                    RowResult{"k_raw", &AttentionTrace::k_raw_BGSD},
                                    RowResult{"v_raw", &AttentionTrace::v_raw_BGSD},
                                    RowResult{"k_sel", &AttentionTrace::k_sel_BGSD},
                                    RowResult{"v_sel", &AttentionTrace::v_sel_BGSD},
                                    RowResult{"k_win", &AttentionTrace::k_win_BGSD},
                                    RowResult{"v_win", &AttentionTrace::v_win_BGSD},
                                    RowResult{"o_cmp", &AttentionTrace::o_cmp_BHSD},
                                    RowResult{"p_grp", &AttentionTrace::p_grp_BGSN},
                                    RowResult{"blocks", &AttentionTrace::blocks_BGSn},
                                    RowResult{"o_sel", &AttentionTrace::o_sel_BHSD},
                                    RowResult{"o_win", &AttentionTrace::o_win_BHSD},
                                    RowResult{"gate", &AttentionTrace::gate},
                                    RowResult{"y", &AttentionTrace::y_BSE}};

// What a layer made, piece by piece.
struct LayerResults {
  std::array<std::vector<Tensor>, kRowResults.size()> rows;
  Tensor k_cmp_BGCD, v_cmp_BGCD;  // all compressed tokens so far
  // The same, copied when they were first seen.
  std::vector<Tensor> made_k_BGTD, made_v_BGTD;
  std::int64_t made = 0;
};

// The pieces one after the other. A block that begins after the last token of a piece has no score there: 0.
Tensor joined(const std::vector<Tensor>& pieces) {
  const auto width = pieces.back().size(-1);
  std::vector<Tensor> alike;
  alike.reserve(pieces.size());
  for (const Tensor& piece : pieces) {
    alike.push_back(torch::constant_pad_nd(piece, {0, width - piece.size(-1)}));
  }
  return torch::cat(alike, -2);
}

class DecodeCase {
 public:
  explicit DecodeCase(Session& session)
      : rank_(session),
        session_(session),
        scenario_(rank_.scenario),
        recorder_(
            rank_.model, rank_.watch, session.progress(), session.wants_check("close_to_oracle")) {
    for (int layer = 0; layer < rank_.layers(); ++layer) {
      rank_.model->attention(layer)->set_tap([this](const AttentionTrace& trace) { take(trace); });
    }
    recorder_.begin(LoneRank::kStep, 0);
  }

  void run() {
    rank_.run([this] { decode(); });
  }

 private:
  void decode() {
    const torch::NoGradGuard no_grad;
    const Tensor tokens_BS = draw_tokens();
    const std::int64_t prompt = rank_.prefix_length();
    nsa::Decoder decoder(rank_.model);
    session_.enter("forward", LoneRank::kStep);
    (void)decoder.prefill(tokens_BS);
    // The whole sequence is what the oracle judges; single tokens are judged by the whole sequence.
    recorder_.write_exposure(session_.channel());
    recorder_.write(session_.out_of(LoneRank::kStep, 0), {});
    recorder_.pause(true);
    write("decode_prefill");
    session_.sample("prompt_tokens", LoneRank::kStep, static_cast<double>(prompt));
    session_.enter("decode", LoneRank::kStep);
    (void)decoder.prefill(tokens_BS.slice(1, 0, prompt));
    for (auto& [layer, results] : results_) results.rows = {};  // those of single tokens follow
    for (std::int64_t position = prompt; position < tokens_BS.size(1); ++position) {
      const std::vector<nsa::Reads> before = reads(decoder);
      (void)decoder.step(tokens_BS.select(1, position));
      write_reads(decoder, before, position);
      session_.progress().worked();
    }
    write("decode_steps", &decoder);
  }

  [[nodiscard]] Tensor draw_tokens() const {
    const auto random = at::detail::createCPUGenerator(static_cast<std::uint64_t>(scenario_.seed));
    return torch::randint(scenario_.model.vocab_size,
                          {scenario_.training.batch_size, scenario_.training.seq_len},
                          random,
                          torch::kLong)
        .to(device_of(session_));
  }

  void take(const AttentionTrace& trace) {
    recorder_.take(trace);
    LayerResults& results = results_[trace.layer];
    for (std::size_t i = 0; i < kRowResults.size(); ++i) {
      results.rows[i].push_back((trace.*kRowResults[i].tensor).detach());
    }
    results.k_cmp_BGCD = trace.k_cmp_BGCD.detach();
    results.v_cmp_BGCD = trace.v_cmp_BGCD.detach();
    const std::int64_t now = results.k_cmp_BGCD.size(2);
    if (now > results.made) {
      results.made_k_BGTD.push_back(results.k_cmp_BGCD.slice(2, results.made, now).clone());
      results.made_v_BGTD.push_back(results.v_cmp_BGCD.slice(2, results.made, now).clone());
      results.made = now;
    }
  }

  // What lies in the caches at the end, and compressed tokens as they were when they were put there.
  static void add_held(const nsa::LayerCache& cache,
                       const LayerResults& results,
                       std::vector<NamedTensor>& tensors) {
    if (results.made > 0) {
      tensors.push_back({"made_k_cmp", torch::cat(results.made_k_BGTD, 2)});
      tensors.push_back({"made_v_cmp", torch::cat(results.made_v_BGTD, 2)});
    }
    const nsa::KeysValues sel = cache.sel.all();
    tensors.push_back({"held_k_sel", sel.k_BGTD});
    tensors.push_back({"held_v_sel", sel.v_BGTD});
    const nsa::KeysValues win = cache.win.all();
    tensors.push_back({"held_k_win", win.k_BGTD});
    tensors.push_back({"held_v_win", win.v_BGTD});
  }

  void write(const std::string& name, const nsa::Decoder* decoder = nullptr) {
    session_.enter("record", LoneRank::kStep);
    for (const auto& [layer, results] : results_) {
      std::vector<NamedTensor> tensors;
      for (std::size_t i = 0; i < kRowResults.size(); ++i) {
        tensors.push_back({kRowResults[i].name, joined(results.rows[i])});
      }
      tensors.push_back({"k_cmp", results.k_cmp_BGCD});
      tensors.push_back({"v_cmp", results.v_cmp_BGCD});
      if (decoder != nullptr) add_held(decoder->cache(layer), results, tensors);
      session_.out_of(LoneRank::kStep, 0)
          .write({.step = LoneRank::kStep, .name = name, .layer = layer}, tensors);
    }
    results_.clear();
  }

  [[nodiscard]] std::vector<nsa::Reads> reads(const nsa::Decoder& decoder) const {
    std::vector<nsa::Reads> all;
    for (int layer = 0; layer < rank_.layers(); ++layer) {
      all.push_back(decoder.reads(layer));
    }
    return all;
  }

  void write_reads(const nsa::Decoder& decoder,
                   const std::vector<nsa::Reads>& before,
                   std::int64_t position) {
    for (int layer = 0; layer < rank_.layers(); ++layer) {
      const nsa::Reads& now = decoder.reads(layer);
      const nsa::Reads& then = before[static_cast<std::size_t>(layer)];
      session_.channel().write(Reads{position, layer, "cmp", now.cmp - then.cmp});
      session_.channel().write(Reads{position, layer, "sel", now.sel - then.sel});
      session_.channel().write(Reads{position, layer, "win", now.win - then.win});
    }
  }

  LoneRank rank_;
  Session& session_;
  const Scenario& scenario_;
  LayerRecorder recorder_;
  std::map<int, LayerResults> results_;
};

void run_decode(Session& session) {
  DecodeCase(session).run();
}

}  // namespace

Kind decode() {
  return {"decode",
          "a prompt, then single tokens from caches, against the whole sequence at once",
          run_decode};
}

}  // namespace harness
