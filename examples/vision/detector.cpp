#include "detector.hpp"

#include <algorithm>
#include <opencv2/imgproc.hpp>

namespace vision {
namespace {

// The detector was trained on people 96 pixels tall in windows of 64 x 128. Chosen by eye and by
// time on Debian's vtest.avi: a larger zoom costs its square and finds hardly more.
constexpr float kZoom = 1.6F;
constexpr double kScaleStep = 1.1;
constexpr double kHitThreshold = 0;  // of a candidate; the rest is decided after merging

constexpr float kSureScore = 0.85F;       // enough by itself
constexpr float kWeakScore = 0.4F;        // needs confirming
constexpr std::size_t kConfirming = 5;    // other windows around the same person
constexpr float kSameOverlap = 0.3F;      // of the union
constexpr float kSameContainment = 0.6F;  // of the smaller box

cv::Rect2f box(const Person& person) {
  return {person.x, person.y, person.width, person.height};
}

bool same_person(const Person& a, const Person& b) {
  const auto shared = (box(a) & box(b)).area();
  const auto area_a = box(a).area();
  const auto area_b = box(b).area();
  return shared > kSameOverlap * (area_a + area_b - shared) ||
         shared > kSameContainment * std::min(area_a, area_b);
}

/// A detector window has a margin of background around the person that it was trained with.
Person tighten(Person person, cv::Size frame) {
  const cv::Rect2f body(person.x + person.width * 0.14F, person.y + person.height * 0.08F,
                        person.width * 0.72F, person.height * 0.84F);
  const auto visible = body & cv::Rect2f(cv::Point2f(), cv::Size2f(frame));
  person.x = visible.x;
  person.y = visible.y;
  person.width = visible.width;
  person.height = visible.height;
  return person;
}

bool is_confirmed(const Person& person, std::size_t others) {
  return person.score >= kSureScore || (person.score >= kWeakScore && others >= kConfirming);
}

}  // namespace

PeopleDetector::PeopleDetector() {
  hog_.setSVMDetector(cv::HOGDescriptor::getDefaultPeopleDetector());
}

void PeopleDetector::search(const cv::Mat& tile, const TilePlace& place,
                            std::vector<Person>& windows) const {
  cv::Mat zoomed;
  cv::resize(tile, zoomed, {}, double{kZoom}, double{kZoom}, cv::INTER_LINEAR);
  std::vector<cv::Rect> found;
  std::vector<double> scores;
  const auto left = static_cast<float>(place.x);
  const auto top = static_cast<float>(place.y);
  hog_.detectMultiScale(zoomed, found, scores, kHitThreshold, {8, 8}, {16, 16}, kScaleStep, 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const cv::Rect2f at(found[i]);
    windows.push_back({place.frame, at.x / kZoom + left, at.y / kZoom + top, at.width / kZoom,
                       at.height / kZoom, static_cast<float>(scores[i])});
  }
}

std::vector<Person> merge_people(std::vector<Person> windows, cv::Size frame) {
  std::sort(windows.begin(), windows.end(),
            [](const Person& a, const Person& b) { return a.score > b.score; });
  std::vector<Person> people;
  while (!windows.empty()) {
    const auto best = windows.front();
    windows.erase(windows.begin());
    const auto others =
        std::erase_if(windows, [&](const Person& each) { return same_person(best, each); });
    if (is_confirmed(best, others)) people.push_back(tighten(best, frame));
  }
  return people;
}

}  // namespace vision
