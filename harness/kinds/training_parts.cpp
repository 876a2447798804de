#include "harness/kinds/training_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/worker/nan_watch.h"
#include "nsa/base/hash.h"
#include "nsa/train/schedule.h"

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

std::unique_ptr<nsa::DataSource> make_source(const Scenario& scenario) {
  const nsa::BatchShape shape{scenario.training.batch_size,
                              scenario.training.seq_len,
                              scenario.training.accumulate,
                              scenario.model.vocab_size};
  return nsa::make_data_source(
      scenario.training.data, shape, scenario.seed, static_cast<int>(scenario.parallel.ranks));
}

// The implementations count themselves: what a fault puts in their place and does not call is not counted.
nsa::TrainingSeams make_seams(nsa::DataSource& source,
                              nsa::Optimizer& optimizer,
                              nsa::Routes& routes) {
  nsa::TrainingSeams seams;
  seams.data = [&source, &routes](std::int64_t step, std::int64_t micro, int rank, int world) {
    routes.ran("data", -1, "reference");
    return source.batch(step, micro, rank, world);
  };
  seams.optimizer = [&optimizer, &routes](std::int64_t step) {
    routes.ran("optimizer", -1, "reference");
    return optimizer.step(step);
  };
  return seams;
}

}  // namespace

TrainingParts::TrainingParts(Session& session)
    : device(device_of(session)),
      model(make_model(session, routes)),
      parameters(named_parameters(model)),
      source(make_source(session.the_case().scenario)),
      optimizer(std::make_unique<nsa::Optimizer>(tensors_of(parameters),
                                                 session.the_case().scenario.training.optimizer,
                                                 session.the_case().scenario.training.precision)),
      seams(make_seams(*source, *optimizer, routes)),
      ledger(parameters, session.progress()),
      watch(session.channel()),
      recorder(model, watch, session.progress(), session.wants_check("close_to_oracle")),
      session_(session),
      keeps_tensors_(session.wants_check("matches_twin") ||
                     session.wants_check("close_to_oracle")) {
  session.channel().write(
      Fact{"parameters", std::to_string(session.the_case().scenario.model.parameter_count())});
  session.channel().write(Fact{"parameter_tensors", std::to_string(parameters.size())});
}

void TrainingParts::drop_gradients() {
  for (auto& [name, parameter] : parameters) {
    parameter.mutable_grad().reset();
  }
}

torch::Tensor TrainingParts::batch(std::int64_t step, int of_rank) {
  constexpr std::int64_t kMicro = 0;  // one micro-batch a step
  const int world = static_cast<int>(session_.the_case().scenario.parallel.ranks);
  const auto tokens_BS = seams.data(step, kMicro, of_rank, world).contiguous();
  for (std::int64_t row = 0; row < tokens_BS.size(0); ++row) {
    Batch entry;
    entry.step = step;
    entry.micro = kMicro;
    entry.of_rank = of_rank;
    entry.sequence = static_cast<int>(row);
    entry.hash = nsa::hash_hex(bytes_of(tokens_BS[row]));
    entry.source = source->identity();
    session_.channel().write(entry);
  }
  return tokens_BS.to(device);
}

torch::Tensor TrainingParts::loss_of(const torch::Tensor& tokens_BS) {
  return nsa::next_token_loss(model->forward(tokens_BS), tokens_BS);
}

std::unique_ptr<TensorFile> TrainingParts::gradients_file(std::int64_t step,
                                                          int of_rank,
                                                          const std::string& name) const {
  if (!keeps_tensors_) {
    return nullptr;
  }
  const std::string folder = session_.options().folder + "/" + session_.folder_of(step, of_rank);
  return std::make_unique<TensorFile>(folder + "/" + name + ".safetensors",
                                      gradient_plan(parameters));
}

void TrainingParts::finish_gradients(std::unique_ptr<TensorFile> file,
                                     std::int64_t step,
                                     int of_rank,
                                     const std::string& name) {
  if (!file) {
    return;
  }
  Artefact artefact = file->finish();
  artefact.path = session_.folder_of(step, of_rank) + "/" + name + ".safetensors";
  artefact.name = name;
  artefact.step = step;
  artefact.of_rank = of_rank;
  session_.channel().write(artefact);
  session_.progress().worked(artefact.bytes);
}

void TrainingParts::write_layers(std::int64_t step, int of_rank, const TensorFile* local) {
  recorder.write_exposure(session_.channel());
  std::map<std::string, torch::Tensor> gradients;
  if (local != nullptr) {
    for (const auto& row : ledger.rows()) {
      if (row.ready_count > 0) {
        gradients[row.param] = local->view(row.param);
      }
    }
  }
  if (keeps_tensors_) {
    recorder.write(session_.channel(),
                   session_.options().folder,
                   session_.folder_of(step, of_rank),
                   gradients);
  }
}

void TrainingParts::certify_nan(std::int64_t step, const torch::Tensor& tokens_BS, double loss) {
  const auto& rows = ledger.rows();
  gradients_are_nan_ =
      std::isnan(loss) ||
      std::any_of(rows.begin(), rows.end(), [](const Gradient& row) { return row.state == "nan"; });
  if (!gradients_are_nan_ || !session_.wants_check("finite")) {
    return;
  }
  recorder.pause(true);
  watch.begin(step);
  const NanWatch nan(watch, step, false);
  // Not backward(): nothing may reach the gradients, nor a reducer that waits for them.
  (void)torch::autograd::grad(
      {loss_of(tokens_BS)}, tensors_of(parameters), {}, std::nullopt, false, true);
  recorder.pause(false);
  session_.channel().write(nan.certificate());
}

void TrainingParts::update(std::int64_t step) {
  UpdateLedger updates(
      parameters, optimizer->updated(), step, session_.wants_check("optimizer_sound"));
  const double norm = seams.optimizer(step);
  updates.write(session_.channel());
  session_.sample("grad_norm", step, norm);
  session_.sample(
      "lr", step, nsa::learning_rate(session_.the_case().scenario.training.optimizer, step));
  write_parameters(step);
  session_.sample("rss_peak_bytes", step, peak_resident_bytes());
}

void TrainingParts::write_parameters(std::int64_t step) {
  bool told = gradients_are_nan_ || !session_.wants_check("finite");
  for (const auto& [name, parameter] : parameters) {
    const auto value = parameter.detach().to(torch::kCPU).contiguous();
    session_.channel().write(ParameterHash{step, name, nsa::hash_hex(bytes_of(value))});
    session_.progress().worked();
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
  harness::write_routes(session_, routes);
  watch.write_total();
}

nsa::CommunicatorOptions communicator_options(const Session& session) {
  const nsa::ParallelConfig& parallel = session.the_case().scenario.parallel;
  nsa::CommunicatorOptions options;
  options.rank = session.options().rank;
  options.world = session.options().world;
  options.backend = parallel.effective_backend();
  options.device = parallel.device;
  options.port = session.options().port;
  options.listen_fd = session.options().listen_fd;
  return options;
}

nsa::DataParallelOptions data_parallel_options(const Session& session) {
  const nsa::ParallelConfig& parallel = session.the_case().scenario.parallel;
  nsa::DataParallelOptions options;
  options.find_unused = parallel.find_unused;
  options.bucket_mb = parallel.bucket_mb;
  return options;
}

}  // namespace harness
