#pragma once  // detector.hpp: finds people in tiles and merges what neighbouring tiles both saw.

#include <opencv2/objdetect.hpp>

#include "messages.hpp"

namespace vision {

/// OpenCV's HOG people detector, set up for people of 50 to 110 pixels.
class PeopleDetector {
 public:
  PeopleDetector();
  /// Adds every window of a BGR tile that looks like a person, in frame coordinates. Windows
  /// overlap freely; merge_people() sorts them out.
  void search(const cv::Mat& tile, const TilePlace& place, std::vector<Person>& windows) const;

 private:
  cv::HOGDescriptor hog_;
};

/// One box per person out of the windows of one frame: best score first, what overlaps it or lies
/// in it is the same person; a weak window that no other confirms is dropped. Boxes end up within
/// the frame and tight around the person.
[[nodiscard]] std::vector<Person> merge_people(std::vector<Person> windows, cv::Size frame);

}  // namespace vision
