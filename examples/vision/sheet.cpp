// sheet: results into a contact sheet and a table.
#include <cstdio>
#include <map>
#include <opencv2/imgcodecs.hpp>
#include <set>

#include "output_file.hpp"
#include "results_table.hpp"
#include "sheet_image.hpp"
#include "stage.hpp"

namespace vision {
namespace {

constexpr Program kProgram{
    "sheet", "FOLDER [VIDEO]",
    "Writes contact-sheet.png and results.csv, made of the input 'results', into FOLDER; VIDEO\n"
    "is the name in the title.",
    1, 2};

struct Options {
  std::filesystem::path folder;
  std::string video = "video";
};

Result<Options> parse(Arguments arguments) {
  Options options;
  options.folder = arguments[0];
  if (arguments.size() > 1) options.video = std::filesystem::path(arguments[1]).filename();
  return options;
}

std::string counted(std::size_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

/// Everything the run found, as it comes in.
class Report {
 public:
  void add(const ResultView& result) {
    ++batches_;
    people_ += result.people.size();
    table_.add(result.tiles);
    for (const auto& tile : result.tiles) frames_.insert(tile.place.frame);
    std::map<std::uint32_t, std::vector<std::size_t>> inspected;
    for (std::size_t i = 0; i < result.inspected.size(); ++i)
      inspected[result.inspected[i].frame].push_back(i);
    for (const auto& [frame, tiles] : inspected) add_frame(result, frame, tiles);
    inspected_ += inspected.size();
  }

  [[nodiscard]] std::string title(const std::string& video) const {
    return video + "   " + counted(frames_.size(), "frame", "frames") + "   " +
           counted(batches_, "batch", "batches") + "   " + counted(people_, "person", "people") +
           " found in " + counted(inspected_, "inspected frame", "inspected frames");
  }

  [[nodiscard]] Result<void> write(const std::filesystem::path& picture,
                                   const std::filesystem::path& table,
                                   const std::string& video) const {
    std::vector<unsigned char> png;
    cv::imencode(".png", sheet_.render(title(video)), png);
    if (auto done = write_file(picture, std::as_bytes(std::span(png))); !done) return done;
    const auto csv = table_.csv();
    return write_file(table, std::as_bytes(std::span(csv)));
  }

 private:
  void add_frame(const ResultView& result, std::uint32_t frame,
                 const std::vector<std::size_t>& tiles) {
    std::vector<Person> people;
    for (const auto& person : result.people)
      if (person.frame == frame) people.push_back(person);
    sheet_.add(stitch(result, tiles), frame, people);
  }

  ContactSheet sheet_;
  ResultsTable table_;
  std::set<std::uint32_t> frames_;
  std::size_t batches_ = 0;
  std::size_t people_ = 0;
  std::size_t inspected_ = 0;
};

Result<void> collect(gantry::StageInput& input, Report& report) {
  return for_each_message(input, [&](const gantry::Message& message) -> Result<void> {
    const auto result = parse_result(message.bytes());
    if (!result) return failed(result);
    report.add(*result);
    return {};
  });
}

Result<void> run(const Options& options) {
  if (auto ready = prepare_folder(options.folder); !ready) return ready;
  const auto folder = std::filesystem::canonical(options.folder);
  auto input = gantry::stage_input("results");
  if (!input) return failed(input);
  Report report;
  if (auto done = collect(*input, report); !done) return done;
  const auto picture = folder / "contact-sheet.png";
  const auto table = folder / "results.csv";
  if (auto done = report.write(picture, table, options.video); !done) return done;
  std::printf("%s\npicture: %s\ntable: %s\n", report.title(options.video).c_str(), picture.c_str(),
              table.c_str());
  return {};
}

}  // namespace
}  // namespace vision

int main(int argc, char** argv) {
  return vision::stage_main(vision::kProgram, argc, argv, vision::parse, vision::run);
}
