#include "page/report_page.hpp"

#include <fmt/format.h>

#include <random>

#include "page/assets.hpp"
#include "tools/command_line/json_text.hpp"

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
  const std::string text = cli::json_text(report);
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
  std::string scripts;
  for (const std::string_view name : {"/parts.js", "/graph.js", "/page.js"}) {
    replace(page, fmt::format("<script src=\"{}\" defer></script>\n", name.substr(1)), {});
    scripts += fmt::format("<script nonce=\"{}\">\n{}</script>\n", nonce, text_of(name));
  }
  replace(page, "</body>",
          fmt::format("<script type=\"application/json\" id=\"report\">{}</script>\n{}</body>",
                      as_data(report), scripts));
  return page;
}

}  // namespace gantry::cli
