// Every key of a scenario file, documented in one place. A test demands that it names what the reader asks for, no more and no
// less.
#pragma once

#include <span>
#include <string>

namespace harness {

struct SchemaKey {
  const char*
      path;  // parallel.ddp.bucket_mb; SEAM, NAME, PATH stand for words of the author's choice
  const char* type;
  const char* initial;  // the default; "required" where there is none
  const char* meaning;
};

[[nodiscard]] std::span<const SchemaKey> schema();

// As a table for people: `list --schema`.
[[nodiscard]] std::string schema_text();

}  // namespace harness
