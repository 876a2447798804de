// Every key of a scenario file for people, as the tables of fields have it. A test demands that it names what the reader
// asks for, no more and no less.
#pragma once

#include <string>
#include <vector>

namespace harness {

struct SchemaKey {
  std::string
      path;  // parallel.ddp.bucket_mb; SEAM, NAME, PATH stand for words of the author's choice
  std::string type;
  std::string initial;  // the default; "required" where there is none
  std::string meaning;
};

[[nodiscard]] const std::vector<SchemaKey>& schema();

// As a table: `list --schema`.
[[nodiscard]] std::string schema_text();

}  // namespace harness
