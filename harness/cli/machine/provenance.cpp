#include "harness/cli/machine/provenance.h"

#include <filesystem>
#include <unistd.h>

#include "harness/cli/command.h"
#include "nsa/base/hash.h"
#include "nsa/base/secrets.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

std::string without_newline(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

CommandResult git(const std::string& tree, std::vector<std::string> words) {
  words.insert(words.begin(), {"git", "-C", tree});
  return run_command(words);
}

// An installed tree may lie inside somebody else's repository, whose commit says nothing of it.
bool is_checkout(const std::string& tree) {
  const CommandResult top = git(tree, {"rev-parse", "--show-toplevel"});
  std::error_code error;  // two paths that cannot be compared are not the same
  return top.ok() && std::filesystem::equivalent(without_newline(top.out), tree, error);
}

void add_commit(const std::string& tree, Provenance& provenance) {
  if (!is_checkout(tree)) return;
  const CommandResult head = git(tree, {"rev-parse", "HEAD"});
  if (!head.ok()) return;  // an installed tree, or no git
  provenance.commit = without_newline(head.out);
  const CommandResult status = git(tree, {"status", "--porcelain"});
  provenance.dirty = !status.ok() || !status.out.empty();
  if (!provenance.dirty) return;
  const CommandResult diff = git(tree, {"diff", "--no-ext-diff", "HEAD"});
  if (diff.ok()) provenance.diff_hash = nsa::hash_hex(status.out + diff.out);
}

}  // namespace

Provenance provenance_of(const Paths& paths,
                         const Manifest& manifest,
                         const Machine& machine,
                         const Variables& environment,
                         const std::vector<std::string>& argv) {
  Provenance provenance;
  add_commit(paths.tree, provenance);
  provenance.source_hash = manifest.source_hash;
  const std::string binary = has_worker(paths) ? paths.worker : "/proc/self/exe";
  provenance.binary_hash = nsa::hash_file(binary);
  provenance.argv = nsa::shell_text(nsa::words_without_secrets(argv));
  provenance.machine = machine.facts();
  if (!manifest.torch_version.empty()) {
    provenance.machine.emplace_back("torch", manifest.torch_version);
  }
  if (!manifest.cuda_version.empty())
    provenance.machine.emplace_back("cuda", manifest.cuda_version);
  if (!manifest.nccl_version.empty())
    provenance.machine.emplace_back("nccl", manifest.nccl_version);
  for (const auto& [name, value] : environment) {
    provenance.environment.emplace_back(name, nsa::value_without_secrets(name, value));
  }
  return provenance;
}

std::optional<std::int64_t> commit_time_ms(const std::string& tree, const std::string& commit) {
  if (commit.empty() || commit.front() == '-') return std::nullopt;  // no option of git's
  if (!is_checkout(tree)) return std::nullopt;
  const CommandResult shown =
      git(tree, {"show", "--no-patch", "--format=%ct", "--end-of-options", commit + "^{commit}"});
  const auto seconds = shown.ok() ? nsa::parse_int(without_newline(shown.out)) : std::nullopt;
  if (!seconds) return std::nullopt;
  return *seconds * 1000;
}

std::string program_path(const Paths& paths) {
  const std::string launcher = paths.tree + "/nsa-harness";
  if (access(launcher.c_str(), X_OK) == 0 && !std::filesystem::is_directory(launcher)) {
    return launcher;
  }
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "nsa-harness" : self.string();
}

}  // namespace harness::cli
