#include "harness/kinds/training_parts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include <torch/csrc/autograd/autograd.h>

#include "harness/scenario/constant_gates.h"
#include "harness/worker/watch/nan_watch.h"
#include "nsa/base/hash.h"
#include "nsa/base/safetensors.h"
#include "nsa/base/text.h"
#include "nsa/parallel/bf16_compress.h"
#include "nsa/train/snapshot.h"

namespace harness {
namespace {

std::vector<torch::Tensor> tensors_of(const nsa::NamedParameters& parameters) {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(parameters.size());
  for (const auto& [name, tensor] : parameters) {
    tensors.push_back(tensor);
  }
  return tensors;
}

bool any_is_nan(const std::vector<torch::Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const torch::Tensor& tensor) {
    return tensor.defined() && tensor.isnan().any().item<bool>();
  });
}

// The implementations count themselves: what a fault puts in their place and does not call is not counted.
nsa::TrainingSeams make_seams(nsa::DataSource& source,
                              nsa::Optimizer& optimizer,
                              nsa::Routes& routes,
                              const nsa::LossMask& mask,
                              const nsa::Dropout& dropout,
                              const nsa::SnapshotParts& parts) {
  nsa::TrainingSeams seams;
  seams.data = [&source, &routes](std::int64_t step, std::int64_t micro, int rank, int world) {
    routes.ran("data", -1, "reference");
    return source.batch(step, micro, rank, world);
  };
  seams.loss = nsa::next_token_loss;
  seams.share = [&mask](
                    const torch::Tensor& mean, std::int64_t step, std::int64_t micro, int rank) {
    return mask.share(mean, step, micro, rank);
  };
  seams.kept = [&dropout](const nsa::DropoutPlace& place, std::int64_t width) {
    return dropout.kept(place, width);
  };
  seams.optimizer = [&optimizer, &routes](std::int64_t /*step*/) {
    routes.ran("optimizer", -1, optimizer.implementation());
    return optimizer.step();
  };
  seams.save = [parts](const std::string& path, std::int64_t step) {
    nsa::save_snapshot(path, parts, step);
  };
  seams.restore = [parts](const std::string& path) { return nsa::load_snapshot(path, parts); };
  return seams;
}

std::string snapshot_name(std::int64_t step) {
  return "step_" + std::to_string(step) + ".safetensors";
}

// The steps of the snapshots in `folder`, ascending.
std::vector<std::int64_t> saved_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code none;  // no folder: nothing was saved
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string stem = entry.path().stem().string();
    const auto step = stem.starts_with("step_") ? nsa::parse_int(stem.substr(5)) : std::nullopt;
    if (step && entry.path().filename() == snapshot_name(*step)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string hash_of(const std::vector<torch::Tensor>& tensors) {
  std::string hashes;
  for (const auto& tensor : tensors) {
    hashes += nsa::hash_hex(bytes_of(tensor.detach().to(torch::kCPU).contiguous()));
  }
  return nsa::hash_hex(hashes);
}

}  // namespace

TrainingParts::TrainingParts(Session& session)
    : device(device_of(session)),
      model(make_model(session, routes)),
      parameters(named_parameters(model)),
      source(make_source(session.the_case().scenario)),
      mask(make_loss_mask(session.the_case().scenario)),
      documents(make_documents(session.the_case().scenario)),
      dropout(make_dropout(session.the_case().scenario)),
      optimizer(std::make_unique<nsa::Optimizer>(tensors_of(parameters),
                                                 session.the_case().scenario.training.optimizer,
                                                 session.the_case().scenario.training.precision,
                                                 optimizer_of(session))),
      seams(make_seams(*source,
                       *optimizer,
                       routes,
                       mask,
                       dropout,
                       {parameters, *optimizer, source->identity()})),
      ledger(parameters, session.progress(), session.observe()),
      step_recorder(parameters,
                    *optimizer,
                    {session.wants_check("step_is_oracle") && !session.is_twin(),
                     session.options().rank,
                     session.the_case().scenario.seed,
                     session.the_case().scenario.training.accumulate}),
      block_recorder(
          model,
          session.wants_check("step_is_oracle") && !session.is_twin() &&
              session.the_case().scenario.training.precision != nsa::Precision::bf16_autocast),
      session_(session),
      micro_batches_(session.the_case().scenario.training.accumulate),
      keeps_tensors_(
          session.wants_check("matches_twin") || session.wants_check("equals_joint_batch") ||
          session.wants_check("close_to_oracle") || session.wants_check("step_is_oracle") ||
          session.wants_check("checkpoint_equal") || session.wants_check("buckets_as_asked")) {
  if (watches(kWatchValues)) {
    watch = std::make_unique<SeamWatch>(session.channel(), session.progress());
    const bool keeps_layers = session.wants_check("close_to_oracle") ||
                              session.wants_check("selection_valid") ||
                              session.wants_check("step_is_oracle");
    recorder = std::make_unique<LayerRecorder>(
        model, *watch, session.progress(), !session.is_twin() && keeps_layers);
    recorder->keep_decisions(session.wants_check("decisions_agree"));
  }
  if (!session.is_twin()) {
    checkpoint = std::make_unique<nsa::ActivationCheckpoint>(
        model, session.the_case().scenario.parallel, routes);
  }
  for (int layer = 0; layer < static_cast<int>(model->config().n_layers); ++layer) {
    model->attention(layer)->set_gate_override(
        constant_gates(session.the_case().scenario.attention.gate));
  }
  if (dropout.drops()) drop_residuals();
  session.channel().write(
      Fact{"parameters", std::to_string(session.the_case().scenario.model.parameter_count())});
  session.channel().write(Fact{"parameter_tensors", std::to_string(parameters.size())});
}

void TrainingParts::drop_residuals() {
  for (int layer = 0; layer < static_cast<int>(model->config().n_layers); ++layer) {
    model->block(layer)->set_drop([this](int of_layer, int site, const torch::Tensor& branch_BSE) {
      return dropped(of_layer, site, branch_BSE);
    });
  }
}

torch::Tensor TrainingParts::dropped(int layer, int site, const torch::Tensor& branch_BSE) {
  const auto kept_BSE = seams.kept({step_, micro_, of_rank_, layer, site}, branch_BSE.size(2));
  if (watches(kWatchValues) && !again_ && !nsa::is_recomputing()) {
    session_.channel().write(
        DropoutMask{step_, micro_, layer, site, of_rank_, nsa::hash_hex(bytes_of(kept_BSE))});
  }
  return dropout.dropped(branch_BSE, kept_BSE);
}

void TrainingParts::watch_seams() {
  if (!watch) return;
  watch->install(model);
  if (checkpoint) {
    recompute_watch =
        std::make_unique<RecomputeWatch>(session_.channel(),
                                         *checkpoint,
                                         model,
                                         session_.the_case().scenario.parallel.checkpoint_mode);
  }
}

void TrainingParts::begin_step(std::int64_t step, int of_rank) {
  step_ = step;
  of_rank_ = of_rank;
  loss_sum_ = floor_sum_ = losses_ = 0.0;
  unread_losses_.clear();
  predicted_ = 0;
  for (auto& [name, parameter] : parameters) {
    parameter.mutable_grad().reset();
  }
  if (watches(kWatchValues)) step_recorder.begin(step, session_.out_of(step, of_rank));
}

torch::Tensor TrainingParts::batch(std::int64_t micro) {
  session_.enter("data", step_);
  session_.progress().at_micro(micro);
  const int world = static_cast<int>(session_.the_case().scenario.parallel.ranks);
  auto tokens_BS = seams.data(step_, micro, of_rank_, world);
  if (!tokens_BS.defined()) return tokens_BS;
  tokens_BS = tokens_BS.contiguous();
  if (watches(kWatchValues)) write_batch(micro, tokens_BS);
  scored_B_ = mask.scored(step_, micro, of_rank_);
  packed_ = documents.lengths(step_, micro, of_rank_);
  model->set_documents(packed_);
  if (watches(kWatchEvents)) {
    floor_sum_ += mask.weight(step_, micro, of_rank_) * source->floor_of(tokens_BS, scored_B_);
  }
  tokens_BS_ = tokens_BS.to(device);
  return tokens_BS_;
}

void TrainingParts::write_batch(std::int64_t micro, const torch::Tensor& tokens_BS) {
  for (std::int64_t row = 0; row < tokens_BS.size(0); ++row) {
    Batch entry;
    entry.step = step_;
    entry.micro = micro;
    entry.of_rank = of_rank_;
    entry.sequence = static_cast<int>(row);
    entry.hash = nsa::hash_hex(bytes_of(tokens_BS[row]));
    entry.source = source->identity();
    session_.channel().write(entry);
  }
}

torch::Tensor TrainingParts::loss_of(const torch::Tensor& tokens_BS) {
  const auto logits_BSV =
      logits_of(model, tokens_BS, session_.the_case().scenario.training.precision);
  step_recorder.logits(tokens_BS, logits_BSV);
  return seams.loss(logits_BSV, nsa::labels_of_documents(tokens_BS, packed_), scored_B_);
}

torch::Tensor TrainingParts::forward(const torch::Tensor& tokens_BS, std::int64_t micro) {
  micro_ = micro;
  block_recorder.pause(micro > 0);
  if (recorder) recorder->pause(micro > 0);
  if (micro == 0) {
    if (watch) watch->begin(step_);
    if (recorder) recorder->begin(step_, of_rank_);
    block_recorder.begin(step_, of_rank_);
  }
  if (recompute_watch) recompute_watch->begin(step_, micro);
  const auto loss = loss_of(tokens_BS);
  add_loss(loss.detach(), mask.weight(step_, micro, of_rank_));
  predicted_ += mask.tokens(step_, micro, of_rank_);
  if (watch) watch->check_outputs();
  const auto root = optimizer->scaled(seams.share(loss, step_, micro, of_rank_));
  step_recorder.loss(loss, root);
  return root;
}

void TrainingParts::add_loss(const torch::Tensor& loss, double weight) {
  losses_ += weight;
  if (watches(kWatchValues)) {
    loss_sum_ += weight * loss.item<double>();
  } else {
    unread_losses_.emplace_back(loss, weight);
  }
}

void TrainingParts::backward_ended(std::int64_t micro, const TensorFile* local) {
  if (recompute_watch) recompute_watch->write();
  if (micro > 0 || !recorder) {
    return;
  }
  recorder->write_exposure(session_.channel());
  if (!keeps_tensors_) {
    return;
  }
  std::map<std::string, torch::Tensor> gradients;
  if (local != nullptr) {
    for (const auto& row : ledger.rows()) {
      if (row.ready_count > 0) {
        gradients[row.param] = local->view(row.param);
      }
    }
  } else {
    for (const auto& [name, parameter] : parameters) {
      if (parameter.grad().defined()) gradients[name] = parameter.grad();
    }
  }
  const ArtefactOut out = session_.out_of(step_, of_rank_);
  recorder->write(out, gradients);
  // The gradients of a step of one micro-batch have a file of their own.
  block_recorder.write(out, local != nullptr ? std::map<std::string, torch::Tensor>{} : gradients);
}

double TrainingParts::mean_loss() const {
  return loss_sum_ / losses_;
}

void TrainingParts::write_loss(const std::string& metric) {
  for (const auto& [unread, weight] : unread_losses_) loss_sum_ += weight * unread.item<double>();
  unread_losses_.clear();
  session_.sample(metric, step_, mean_loss());
  const double floor = floor_sum_ / losses_;
  if (std::isnan(floor)) {
    return;  // the source does not know
  }
  session_.sample("source_floor", step_, floor);
  session_.sample("floor_tokens", step_, static_cast<double>(predicted_));
}

std::unique_ptr<TensorFile> TrainingParts::gradients_file(std::int64_t step,
                                                          int of_rank,
                                                          const std::string& name) const {
  if (!keeps_tensors_) {
    return nullptr;
  }
  const ArtefactOut out = session_.out_of(step, of_rank);
  return std::make_unique<TensorFile>(out.root + "/" + out.path_of({.name = name}),
                                      gradient_plan(parameters));
}

void TrainingParts::finish_gradients(std::unique_ptr<TensorFile> file,
                                     std::int64_t step,
                                     int of_rank,
                                     const std::string& name) {
  if (!file) {
    return;
  }
  session_.out_of(step, of_rank)
      .tell({.step = step, .of_rank = of_rank, .name = name}, file->finish());
}

void TrainingParts::pause_recorders(bool pause) {
  if (recorder) recorder->pause(pause);
  step_recorder.pause(pause);
  block_recorder.pause(pause);
  if (checkpoint) checkpoint->pause(pause);
  again_ = pause;
}

torch::Tensor TrainingParts::forward_again() {
  pause_recorders(true);
  const auto share = seams.share(loss_of(tokens_BS_), step_, micro_, of_rank_);
  pause_recorders(false);
  return optimizer->scaled(share);
}

void TrainingParts::certify_nan(std::int64_t step, const torch::Tensor& tokens_BS, double loss) {
  const auto& rows = ledger.rows();
  gradients_are_nan_ =
      std::isnan(loss) ||
      std::any_of(rows.begin(), rows.end(), [](const Gradient& row) { return row.state == "nan"; });
  if (!gradients_are_nan_ || !session_.wants_check("finite")) {
    return;
  }
  pause_recorders(true);
  watch->begin(step);
  const NanWatch nan(*watch, step, false);
  // The loss as it was scaled: an overflow is one of the scaled loss. Not backward(): nothing may reach the gradients, nor a
  // reducer that waits for them.
  const auto share = seams.share(loss_of(tokens_BS), step, micro_batches_ - 1, of_rank_);
  const auto again = torch::autograd::grad(
      {optimizer->scaled(share)}, tensors_of(parameters), {}, std::nullopt, false, true);
  pause_recorders(false);
  // What does not come again has no certificate: nobody saw where it was born.
  if (std::isnan(loss) || any_is_nan(again))
    write_certificate(nan, session_.out_of(step, of_rank_));
}

void TrainingParts::update(std::int64_t step) {
  session_.enter("optimizer", step);
  const std::int64_t skipped = optimizer->skipped();
  const std::int64_t taken = optimizer->taken();
  UpdateLedger updates(
      parameters, optimizer->updated(), step, session_.wants_check("optimizer_sound"));
  const double norm = seams.optimizer(step);
  step_recorder.end();
  updates.write(session_.channel(), optimizer->skipped() > skipped);
  if (watches(kWatchEvents)) write_update(step, norm, optimizer->taken() > taken);
  // Less closely watched, the state is looked at where no step comes after it.
  const bool is_last = step == session_.the_case().scenario.training.steps;
  if (watches(kWatchValues) || is_last) write_parameters(step);
  write_state(step);
  tell_saved();
}

void TrainingParts::write_update(std::int64_t step, double norm, bool taken) {
  if (!watches(kWatchValues)) write_loss("loss");
  session_.sample("grad_norm", step, norm);
  // A step that was left out had no rate; that of an earlier one, or 0, would be told as the schedule's.
  if (taken) session_.sample("lr", step, optimizer->applied_lr());
  session_.sample("loss_scale", step, optimizer->loss_scale());
  session_.sample("skipped_steps", step, static_cast<double>(optimizer->skipped()));
  session_.sample("rss_bytes", step, static_cast<double>(resident_bytes()));
  session_.sample("rss_peak_bytes", step, peak_resident_bytes());
}

void TrainingParts::write_state(std::int64_t step) {
  if (!session_.wants_check("resume_equal")) {
    return;
  }
  const auto tell = [&](const std::string& part, const std::string& hash) {
    session_.channel().write(StateHash{step, part, hash});
  };
  nsa::OptimizerState state = optimizer->state();
  std::vector<torch::Tensor> moments = state.exp_avg;
  moments.insert(moments.end(), state.exp_avg_sq.begin(), state.exp_avg_sq.end());
  tell("moments", hash_of(moments));
  if (!state.masters.empty()) tell("masters", hash_of(state.masters));
  tell("schedule", std::to_string(state.taken));
  tell("scaler",
       nsa::to_text(state.scaler.scale, 17) + " " + std::to_string(state.scaler.good_steps) + " " +
           std::to_string(state.scaler.skipped));
  tell("rng", hash_of({at::globalContext().defaultGenerator(torch::kCPU).get_state()}));
  tell("data", source->identity());
}

void TrainingParts::save(std::int64_t step) {
  session_.enter("save", step);
  const std::string who = "rank_" + std::to_string(session_.options().rank);
  const std::string folder = session_.options().folder + "/" + who + "/snapshots";
  std::filesystem::create_directories(folder);
  Asked asked{step, who + "/snapshots/" + snapshot_name(step), {}};
  if (session_.wants_check("resume_equal")) {
    asked.hashes = nsa::snapshot_hashes({parameters, *optimizer, source->identity()});
  }
  asked_.push_back(std::move(asked));
  seams.save(folder + "/" + snapshot_name(step), step);
  tell_saved();
  const std::vector<std::int64_t> steps = saved_steps(folder);
  for (std::size_t i = 0; i + 2 < steps.size(); ++i) {
    std::filesystem::remove(folder + "/" + snapshot_name(steps[i]));
  }
}

// Of the snapshots whose files are there now.
void TrainingParts::tell_saved() {
  std::erase_if(asked_, [&](const Asked& asked) {
    const std::string file = session_.options().folder + "/" + asked.path;
    std::error_code none;
    const auto bytes = std::filesystem::file_size(file, none);
    if (none) return false;
    SnapshotUse saved{asked.step, "saved", asked.path, static_cast<std::int64_t>(bytes)};
    const nsa::SafetensorsFile written(file);
    for (const auto& [name, hash] : asked.hashes) {
      ++saved.tensors;
      if (nsa::hash_hex(written.at(name).bytes) != hash) saved.torn.push_back(name);
      session_.progress().worked();
    }
    session_.channel().write(saved);
    return true;
  });
}

std::int64_t TrainingParts::resume(const std::function<std::int64_t(std::int64_t)>& newest) {
  const std::string who = "rank_" + std::to_string(session_.options().rank);
  const std::string folder = session_.options().folder + "/" + who + "/snapshots";
  const std::vector<std::int64_t> steps = saved_steps(folder);
  const std::int64_t common = newest(steps.empty() ? 0 : steps.back());
  if (common == 0) {
    return 1;
  }
  const std::string path = folder + "/" + snapshot_name(common);
  const std::int64_t step = seams.restore(path);
  session_.channel().write(
      SnapshotUse{step, "resumed", who + "/snapshots/" + snapshot_name(common), 0});
  if (session_.wants_check("resume_equal")) {
    write_parameters(step);  // as they were read back
    write_state(step);
  }
  return step + 1;
}

void TrainingParts::write_parameters(std::int64_t step) {
  if (model->config().tied_head) write_hash(session_, step, "lm_head.weight", model->head_weight());
  bool told = gradients_are_nan_ || !session_.wants_check("finite");
  for (const auto& [name, parameter] : parameters) {
    const auto value = write_hash(session_, step, name, parameter);
    if (told || !value.isnan().any().item<bool>()) {
      continue;
    }
    NanBirth birth;
    birth.step = step;
    birth.op = birth.direction = birth.seam = "optimizer";
    birth.shape = value.sizes().vec();
    birth.elements = value.isnan().sum().item<std::int64_t>();
    session_.channel().write(birth);
    told = true;
  }
}

void TrainingParts::write_routes() {
  if (watches(kWatchEvents)) harness::write_routes(session_, routes);
  if (watch) watch->write_total();
}

nsa::CommunicatorOptions communicator_options(const Session& session) {
  const nsa::ParallelConfig& parallel = session.the_case().scenario.parallel;
  nsa::CommunicatorOptions options;
  options.rank = session.options().rank;
  options.world = session.options().world;
  options.backend = parallel.effective_backend();
  options.device = parallel.device;
  options.card = session.the_case().scenario.card_of(options.rank);
  options.port = session.options().port;
  options.listen_fd = session.options().listen_fd;
  options.store = session.options().store;
  options.address = session.options().address;
  return options;
}

nsa::DataParallelOptions data_parallel_options(const Session& session,
                                               nsa::Communicator& communicator,
                                               nsa::Routes& routes) {
  const nsa::ParallelConfig& parallel = session.the_case().scenario.parallel;
  nsa::DataParallelOptions options;
  options.static_graph = parallel.static_graph;
  options.find_unused = parallel.find_unused;
  options.gradient_as_bucket_view = parallel.gradient_as_bucket_view;
  options.bucket_mb = parallel.bucket_mb;
  if (parallel.compress == "bf16") {
    options.reduce_bucket = nsa::bf16_compressed(communicator, routes);
  }
  return options;
}

}  // namespace harness
