#include "settings.hpp"

#include <algorithm>

#include "../support/program/choices.hpp"
#include "../support/program/sizes.hpp"
#include "cases.hpp"

namespace gantry::bench {
namespace {

constexpr std::string_view kAllOfIt = "all";

Result<Bytes> parse_device_bytes(const std::string& text) {
  return text == kAllOfIt ? Result<Bytes>(0) : parse_size(text);
}

Result<std::string> take_path(const std::string& text) {
  return text;
}

std::vector<OwnOption> own_options(Settings& settings) {
  std::vector<std::string> cases, modes;
  for (const CaseKind& kind : case_kinds()) cases.emplace_back(kind.name);
  for (const PipelineMode mode : kModes) modes.emplace_back(to_string(mode));
  modes.insert(modes.end(), kFileWays.begin(), kFileWays.end());
  const std::vector<std::string> devices(kDevices.begin(), kDevices.end());
  const std::string all(kAllOfIt);
  return {choice_into(settings.cases, "--cases", "case", cases),
          choice_into(settings.modes, "--subjects", "subject", modes),
          choice_into(settings.devices, "--devices", "device", devices),
          option_into(settings.device_bytes, "--device-memory",
                      "Most device memory that chunks may take, to be beyond it with less data",
                      all, all, parse_device_bytes),
          option_into(settings.trace, "--trace",
                      "A file for the last round of the first case and size: Chrome's trace event "
                      "format, which Perfetto loads",
                      "", "", take_path)};
}

}  // namespace

Manual manual(Settings& settings) {
  return {
      .description =
          "Times jobs that go through a device as chunks: one chunk after the other as others do "
          "it, with copies under compute, with page-locked memory, in one piece, and as the "
          "library chooses.",
      .notes =
          "A size is of all that flows, in and out. All subjects of a case work on the same data\n"
          "and take turns; every result is checked against a plain loop. Pinned subjects find\n"
          "their memory page-locked; what that takes is shown beside and added up. There are no\n"
          "--peers: sequential is what the published systems do. Cases of files compare the ways "
          "to\n"
          "read and write them, on files in the temporary directory (TMPDIR).\n\n"
          "Example: gantry bench pipeline --devices opencl --sizes 64M,1G --json > pipeline.json",
      .sizes = "64M",
      .quick_sizes = "16M",
      .rounds = 5,
      .quick_rounds = 3,
      .sized = "Job",
      .own = own_options(settings),
      .flags = {
          {"--sweep", "Chunk sizes and depths by hand too, beside those that the library chooses",
           &settings.sweeps},
          {"--copied",
           "automatic copies to the device and back, where it could compute in place too",
           &settings.copies}}};
}

bool Settings::has_mode(PipelineMode mode) const noexcept {
  return has_subject(to_string(mode));
}

bool Settings::has_subject(std::string_view name) const noexcept {
  return std::find(modes.begin(), modes.end(), name) != modes.end();
}

}  // namespace gantry::bench
