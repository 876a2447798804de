#include "harness/kinds/decode.h"

#include <map>
#include <string>
#include <vector>

#include "harness/kinds/lone_rank.h"
#include "harness/worker/layer_recorder.h"
#include "harness/worker/tensor_file.h"
#include "nsa/model/decode.h"

namespace harness {
namespace {

using torch::Tensor;

// What a layer put out, piece by piece: a prompt, then single tokens.
struct LayerOutputs {
  std::vector<Tensor> y_BSE;
  std::vector<Tensor> blocks_BGSn;
};

class DecodeCase {
 public:
  explicit DecodeCase(Session& session)
      : rank_(session),
        session_(session),
        scenario_(rank_.scenario),
        recorder_(
            rank_.model, rank_.watch, session.progress(), session.wants_check("close_to_oracle")) {
    for (int layer = 0; layer < rank_.layers(); ++layer) {
      rank_.model->attention(layer)->set_tap(
          [this](const nsa::AttentionTrace& trace) { take(trace); });
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
    outputs_.clear();
    for (std::int64_t position = prompt; position < tokens_BS.size(1); ++position) {
      const std::vector<nsa::Reads> before = reads(decoder);
      (void)decoder.step(tokens_BS.select(1, position));
      write_reads(decoder, before, position);
      session_.progress().worked();
    }
    write("decode_steps");
  }

  [[nodiscard]] Tensor draw_tokens() const {
    const auto random = at::detail::createCPUGenerator(static_cast<std::uint64_t>(scenario_.seed));
    return torch::randint(scenario_.model.vocab_size,
                          {scenario_.training.batch_size, scenario_.training.seq_len},
                          random,
                          torch::kLong)
        .to(device_of(session_));
  }

  void take(const nsa::AttentionTrace& trace) {
    recorder_.take(trace);
    LayerOutputs& outputs = outputs_[trace.layer];
    outputs.y_BSE.push_back(trace.y_BSE.detach());
    outputs.blocks_BGSn.push_back(trace.blocks_BGSn.detach());
  }

  void write(const std::string& name) {
    session_.enter("record", LoneRank::kStep);
    for (const auto& [layer, outputs] : outputs_) {
      session_.out_of(LoneRank::kStep, 0)
          .write({.step = LoneRank::kStep, .name = name, .layer = layer},
                 {{"y", torch::cat(outputs.y_BSE, 1)},
                  {"blocks", torch::cat(outputs.blocks_BGSn, 2)}});
    }
    outputs_.clear();
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
  std::map<int, LayerOutputs> outputs_;
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
