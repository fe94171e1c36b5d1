#include "serve/report_page.hpp"

#include <fmt/format.h>

#include <random>

#include "serve/assets.hpp"

namespace gantry::cli {
namespace {

std::string_view text_of(std::string_view path) {
  for (const Asset& asset : kAssets)
    if (asset.path == path) return asset.text;
  return {};
}

void replace(std::string& page, std::string_view what, const std::string& by) {
  page.replace(page.find(what), what.size(), by);
}

std::string random_word() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

// "</script>" ends a script wherever it stands, also within a string.
std::string as_data(const nlohmann::ordered_json& report) {
  const std::string text =
      report.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string data;
  for (const char letter : text) {
    if (letter == '<')
      data += "\\u003c";
    else
      data += letter;
  }
  return data;
}

}  // namespace

std::string report_page(const nlohmann::ordered_json& report) {
  std::string page(text_of("/"));
  const std::string nonce = random_word();
  replace(page, "<link rel=\"stylesheet\" href=\"page.css\">",
          fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                      "img-src data:; script-src 'nonce-{0}'; style-src 'nonce-{0}'\">\n"
                      "<style nonce=\"{0}\">\n{1}</style>",
                      nonce, text_of("/page.css")));
  replace(page, "<script src=\"parts.js\" defer></script>\n", {});
  replace(page, "<script src=\"page.js\" defer></script>\n", {});
  replace(page, "</body>",
          fmt::format("<script type=\"application/json\" id=\"report\">{1}</script>\n"
                      "<script nonce=\"{0}\">\n{2}</script>\n<script nonce=\"{0}\">\n{3}</script>\n"
                      "</body>",
                      nonce, as_data(report), text_of("/parts.js"), text_of("/page.js")));
  return page;
}

}  // namespace gantry::cli
