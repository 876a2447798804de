#include "harness/cli/machine/environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>

#include "nsa/base/secrets.h"

extern char** environ;

namespace harness::cli {
namespace {

constexpr std::array<std::string_view, 16> kNames = {"PATH",
                                                     "HOME",
                                                     "LANG",
                                                     "LC_ALL",
                                                     "TMPDIR",
                                                     "TZ",
                                                     "LD_LIBRARY_PATH",
                                                     "MKL_NUM_THREADS",
                                                     "NSA_TORCH",
                                                     "CUBLAS_WORKSPACE_CONFIG",
                                                     "GLOO_SOCKET_IFNAME",
                                                     "NSA_HARNESS_PYTHON",
                                                     "PYTHONPATH",
                                                     "USER",
                                                     "VIRTUAL_ENV",
                                                     "XDG_CACHE_HOME"};
// They change what LibTorch, CUDA, NCCL, OpenMP and Triton do.
constexpr std::array<std::string_view, 5> kSteeringPrefixes = {
    "NCCL_", "TORCH_", "CUDA_", "OMP_", "TRITON_"};

bool has_prefix(const std::string& name) {
  return std::any_of(kSteeringPrefixes.begin(),
                     kSteeringPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Such names under an allowed prefix are no settings, in whatever case they are written. A word that is also a part of harmless
// ones (PATH, KEYBOARD) must stand alone between underscores, or end the name.
bool is_secret(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  constexpr std::array kAnywhere = {"token",
                                    "secret",
                                    "passw",
                                    "passphrase",
                                    "credential",
                                    "apikey",
                                    "auth",
                                    "private",
                                    "cookie"};
  constexpr std::array kWords = {"key", "keys", "pat", "pwd", "pass", "cert", "session"};
  const bool part = std::any_of(kAnywhere.begin(), kAnywhere.end(), [&](const char* word) {
    return lower.find(word) != std::string::npos;
  });
  const std::string between = "_" + lower + "_";
  return part || nsa::is_secret_name(name) ||
         std::any_of(kWords.begin(), kWords.end(), [&](const std::string& word) {
           return between.find("_" + word + "_") != std::string::npos ||
                  (word == "key" && lower.ends_with(word));
         });
}

Variables kept(const Variables& all, bool (*keep)(const std::string& name)) {
  Variables out;
  std::copy_if(all.begin(), all.end(), std::back_inserter(out), [&](const auto& entry) {
    return keep(entry.first);
  });
  return out;
}

}  // namespace

Variables own_variables() {
  Variables all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::string> as_texts(const Variables& variables) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : variables) texts.push_back(name + "=" + value);
  return texts;
}

Variables allowed_variables(const Variables& all) {
  return kept(all, [](const std::string& name) {
    const bool named = std::find(kNames.begin(), kNames.end(), name) != kNames.end();
    return named || (has_prefix(name) && !is_secret(name));
  });
}

Variables steering_variables(const Variables& allowed) {
  return kept(allowed, [](const std::string& name) {
    constexpr std::array<std::string_view, 3> kWhereAToolkitIs = {
        "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"};
    if (std::find(kWhereAToolkitIs.begin(), kWhereAToolkitIs.end(), name) != kWhereAToolkitIs.end())
      return false;
    return has_prefix(name) || name == "MKL_NUM_THREADS" || name == "CUBLAS_WORKSPACE_CONFIG";
  });
}

std::vector<std::string> worker_environment(const Variables& allowed,
                                            const Scenario& scenario,
                                            int cores) {
  std::map<std::string, std::string> variables(allowed.begin(), allowed.end());
  // The twin gets the same: with other thread counts sums are formed in another order, and nothing would be bitwise equal.
  const auto ranks = static_cast<int>(scenario.parallel.ranks);
  const int usable = scenario.budget_cores > 0 ? std::min(cores, scenario.budget_cores) : cores;
  const std::string threads = std::to_string(std::max(1, usable / ranks));
  variables.try_emplace("OMP_NUM_THREADS", threads);
  variables.try_emplace("MKL_NUM_THREADS", variables["OMP_NUM_THREADS"]);
  // MKL promises the same bits from run to run only when it is asked for them: fixed cache sizes, no dynamic scheduling, as many
  // threads as it was told.
  variables.try_emplace("MKL_CBWR", "AUTO");
  variables.try_emplace("MKL_DYNAMIC", "FALSE");
  // Threads that spin while they wait for each other take the cores from whatever else runs: on a busy machine a step then
  // takes a hundred times as long and looks like a hang.
  variables.try_emplace("OMP_WAIT_POLICY", "PASSIVE");
  // Read when the first cuBLAS handle is made; without it the same product may differ from run to run.
  if (scenario.parallel.device == nsa::Device::cuda) {
    variables.try_emplace("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
    // Streams that share a queue of the card wait for each other, so that a race between them does not show. It has 8 queues where
    // nobody asks for more.
    if (scenario.has_check("repeats_equal")) {
      variables.try_emplace("CUDA_DEVICE_MAX_CONNECTIONS", "32");
    }
  }
  const auto torch = variables.find("NSA_TORCH");
  if (torch != variables.end() && !torch->second.empty()) {
    std::string& libraries = variables["LD_LIBRARY_PATH"];
    libraries = torch->second + "/lib" + (libraries.empty() ? "" : ":" + libraries);
  }
  return as_texts({variables.begin(), variables.end()});
}

}  // namespace harness::cli
