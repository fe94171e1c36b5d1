// detect: batches into figures about every tile, and people in some frames.
#include "inspection.hpp"
#include "stage.hpp"

namespace vision {
namespace {

constexpr Program kProgram{
    "detect", "[FRAMES]",
    "Measures every tile of each batch of the input 'batches', looks for people in FRAMES frames\n"
    "of each (default 2, 0 to 256), and sends what it found to the output 'results'.",
    0, 1};

struct Options {
  unsigned frames = 2;
};

Result<Options> parse(Arguments arguments) {
  Options options;
  if (arguments.empty()) return options;
  const auto frames = parse_number(arguments[0], "FRAMES", 0, kBatchTiles);
  if (!frames) return failed(frames);
  options.frames = *frames;
  return options;
}

Result<void> send(gantry::StageOutput& output, const Findings& findings) {
  auto loan = output.loan(result_bytes(findings.header));
  if (!loan) return failed(loan);
  write(findings, loan->bytes());
  return output.publish(std::move(*loan));
}

Result<void> run(const Options& options) {
  auto input = gantry::stage_input("batches");
  if (!input) return failed(input);
  auto output = gantry::stage_output("results");
  if (!output) return failed(output);
  const PeopleDetector detector;
  const auto done = for_each_message(*input, [&](gantry::Message& message) -> Result<void> {
    const auto batch = parse_batch(message.bytes());
    if (!batch) return failed(batch);
    auto findings = survey(*batch, options.frames);
    if (!findings) return failed(findings);
    message.release();  // the next batch can be written while the slow part runs
    find_people(detector, *findings);
    return send(*output, *findings);
  });
  return done ? output->close() : done;
}

}  // namespace
}  // namespace vision

int main(int argc, char** argv) {
  return vision::stage_main(vision::kProgram, argc, argv, vision::parse, vision::run);
}
