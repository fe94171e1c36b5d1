// uhd: frames of 3840 x 2160 through four processes that compute little, so that moving them is
// what takes the time. Each receiver compares what it gets with the sum that its sender made.
#include <functional>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include "messages.hpp"
#include "output_file.hpp"
#include "stage.hpp"

namespace vision {
namespace {

constexpr Program kProgram{
    "uhd", "decode VIDEO FRAMES | normalise | statistics | sheet FOLDER",
    "decode:     scales pictures of VIDEO to 3840 x 2160, FRAMES of them, to the output 'frames'\n"
    "normalise:  spreads the colours of the input 'frames', to the output 'normal'\n"
    "statistics: means of the input 'normal', and a small picture, to the output 'figures'\n"
    "sheet:      writes uhd.png and uhd.csv, made of the input 'figures', into FOLDER",
    1, 3};

constexpr int kWidth = 3840, kHeight = 2160;
constexpr int kSmallWidth = 240, kSmallHeight = 135;
constexpr int kPictures = 16;  // of the video, which come again and again
constexpr int kBetween = 40;   // frames between two of them
constexpr Bytes kPixelsAt = 64;
constexpr Bytes kFrameBytes = Bytes{kWidth} * kHeight * kChannels;
constexpr Bytes kSmallBytes = Bytes{kSmallWidth} * kSmallHeight * kChannels;

struct UhdHeader {
  std::uint32_t magic = 0x30444855;  // "UHD0"
  std::uint32_t frame = 0;
  std::uint64_t sum = 0;  ///< Of the pixels that follow.
  std::array<float, kChannels> mean{};
};
static_assert(sizeof(UhdHeader) <= kPixelsAt);

/// Of all bytes and their order: Fletcher's, over words of 64 bits.
std::uint64_t sum_of(ConstByteSpan bytes) noexcept {
  std::uint64_t first = 0, second = 0;
  for (; bytes.size() >= sizeof first; bytes = bytes.subspan(sizeof first)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    first += word;
    second += first;
  }
  for (const std::byte one : bytes) second += first += std::to_integer<std::uint64_t>(one);
  return first ^ (second << 1 | second >> 63);
}

auto refuse(const std::string& what) {
  return tl::unexpected(gantry::Error{gantry::Code::peer_misbehaved, what, ""});
}

cv::Mat picture(ByteSpan pixels, int width, int height) {
  return {height, width, CV_8UC3, pixels.data()};
}
cv::Mat picture(ConstByteSpan pixels, int width, int height) {
  // OpenCV has no type for a picture that is only read.
  return picture(ByteSpan(const_cast<std::byte*>(pixels.data()), pixels.size()), width, height);
}

/// The header and the pixels of a message that came as it was sent.
struct Received {
  UhdHeader header;
  ConstByteSpan pixels;
};
Result<Received> read(const gantry::Message& message, Bytes pixels) {
  const ConstByteSpan bytes = message.bytes();
  Received one;
  if (bytes.size() != kPixelsAt + pixels) return refuse("a message of another size");
  std::memcpy(&one.header, bytes.data(), sizeof one.header);
  one.pixels = bytes.subspan(kPixelsAt);
  if (one.header.magic != UhdHeader{}.magic) return refuse("a message that is no frame");
  if (sum_of(one.pixels) != one.header.sum)
    return refuse("frame " + std::to_string(one.header.frame) + ": not the bytes that were sent");
  return one;
}

/// `draw(cv::Mat&, header)` fills the pixels of a message where they are sent from.
template <class Draw>
Result<void> send(gantry::StageOutput& output, UhdHeader header, int width, int height, Draw draw) {
  auto loan = output.loan(kPixelsAt + Bytes{kChannels} * static_cast<Bytes>(width * height));
  if (!loan) return failed(loan);
  const ByteSpan pixels = loan->bytes().subspan(kPixelsAt);
  cv::Mat drawn = picture(pixels, width, height);
  draw(drawn, header);
  header.sum = sum_of(pixels);
  put(loan->bytes(), header);
  return output.publish(std::move(*loan));
}

Result<std::vector<cv::Mat>> pictures_of(const std::string& video) {
  cv::VideoCapture capture;
  std::vector<cv::Mat> pictures;
  if (capture.open(video))
    for (int frame = 0; pictures.size() < kPictures && capture.grab(); ++frame) {
      cv::Mat decoded;
      if (frame % kBetween == 0 && capture.retrieve(decoded) && decoded.type() == CV_8UC3)
        pictures.push_back(decoded.clone());
    }
  if (pictures.empty()) return refuse(video + ": not a video that OpenCV can read");
  return pictures;
}

Result<void> decode(const std::string& video, unsigned frames) {
  const auto pictures = pictures_of(video);
  if (!pictures) return failed(pictures);
  auto output = gantry::stage_output("frames");
  if (!output) return failed(output);
  UhdHeader header;
  for (; header.frame < frames; ++header.frame) {
    const auto sent = send(*output, header, kWidth, kHeight, [&](cv::Mat& to, UhdHeader&) {
      cv::resize((*pictures)[header.frame % pictures->size()], to, to.size(), 0, 0,
                 cv::INTER_NEAREST);
    });
    if (!sent) return sent;
  }
  return output->close();
}

/// A stage between two others: `make(received, output)` for each frame.
template <class Make>
Result<void> pass_on(const char* from, const char* to, Make make) {
  auto input = gantry::stage_input(from);
  if (!input) return failed(input);
  auto output = gantry::stage_output(to);
  if (!output) return failed(output);
  const auto done = for_each_message(*input, [&](const gantry::Message& message) -> Result<void> {
    const auto one = read(message, kFrameBytes);
    if (!one) return failed(one);
    return make(*one, *output);
  });
  return done ? output->close() : done;
}

Result<void> normalise() {
  return pass_on("frames", "normal", [](const Received& one, gantry::StageOutput& output) {
    return send(output, one.header, kWidth, kHeight, [&](cv::Mat& to, UhdHeader&) {
      picture(one.pixels, kWidth, kHeight).convertTo(to, CV_8UC3, 1.25, -24);
    });
  });
}

Result<void> statistics() {
  return pass_on("normal", "figures", [](const Received& one, gantry::StageOutput& output) {
    const cv::Mat whole = picture(one.pixels, kWidth, kHeight);
    return send(output, one.header, kSmallWidth, kSmallHeight, [&](cv::Mat& to, UhdHeader& header) {
      const cv::Scalar mean = cv::mean(whole);
      for (int i = 0; i < static_cast<int>(kChannels); ++i)
        header.mean[static_cast<std::size_t>(i)] = static_cast<float>(mean[i]);
      cv::resize(whole, to, to.size(), 0, 0, cv::INTER_NEAREST);
    });
  });
}

Result<void> sheet(const std::filesystem::path& folder) {
  if (auto ready = prepare_folder(folder); !ready) return ready;
  auto input = gantry::stage_input("figures");
  if (!input) return failed(input);
  cv::Mat all(4 * kSmallHeight, 4 * kSmallWidth, CV_8UC3);
  std::string table = "frame,mean_b,mean_g,mean_r\n";
  unsigned frames = 0;
  const auto done = for_each_message(*input, [&](const gantry::Message& message) -> Result<void> {
    const auto one = read(message, kSmallBytes);
    if (!one) return failed(one);
    if (one->header.frame != frames)
      return refuse("frame " + std::to_string(one->header.frame) + " in place of " +
                    std::to_string(frames));
    const auto place = static_cast<int>(frames++ % kPictures);
    picture(one->pixels, kSmallWidth, kSmallHeight)
        .copyTo(all(cv::Rect(place % 4 * kSmallWidth, place / 4 * kSmallHeight, kSmallWidth,
                             kSmallHeight)));
    const auto& mean = one->header.mean;
    table += std::to_string(one->header.frame) + "," + std::to_string(mean[0]) + "," +
             std::to_string(mean[1]) + "," + std::to_string(mean[2]) + "\n";
    return {};
  });
  if (!done) return done;
  std::vector<unsigned char> png;
  cv::imencode(".png", all, png);
  if (auto wrote = write_file(folder / "uhd.png", std::as_bytes(std::span(png))); !wrote)
    return wrote;
  return write_file(folder / "uhd.csv", std::as_bytes(std::span(table)));
}

auto misused() {
  return tl::unexpected(
      gantry::Error{gantry::Code::invalid_argument, "no such stage", "uhd --help lists them"});
}

/// What to run.
Result<std::function<Result<void>()>> parse(Arguments arguments) {
  const std::string_view role = arguments[0];
  const auto words = arguments.size();
  if (role == "normalise" && words == 1) return normalise;
  if (role == "statistics" && words == 1) return statistics;
  if (role == "sheet" && words == 2)
    return [folder = std::filesystem::path(arguments[1])] { return sheet(folder); };
  if (role != "decode" || words != 3) return misused();
  const auto frames = parse_number(arguments[2], "FRAMES", 1, 1'000'000);
  if (!frames) return failed(frames);
  return [video = std::string(arguments[1]), count = *frames] { return decode(video, count); };
}

}  // namespace
}  // namespace vision

int main(int argc, char** argv) {
  return vision::stage_main(vision::kProgram, argc, argv, vision::parse,
                            [](const auto& work) { return work(); });
}
