// The page: it says what the Markdown report says, it leads to every failure, and whatever a worker wrote is text.
#include <set>

#include <gtest/gtest.h>

#include "reports/html/markup.h"
#include "reports/html/page.h"
#include "reports/sections/failures.h"
#include "tests/reports/long_sample.h"

namespace {

using fixtures::FakeStore;
using harness::Outcome;
using reports::Block;

std::string value_of(const std::string& tag, const std::string& attribute) {
  const std::string begin = " " + attribute + "=\"";
  const std::size_t at = tag.find(begin);
  if (at == std::string::npos) return "";
  const std::size_t from = at + begin.size();
  return tag.substr(from, tag.find('"', from) - from);
}

// The texts of all tags, "<" to ">"; what is in style and script is none.
std::vector<std::string> tags_of(std::string html) {
  for (const std::string name : {"style", "script"}) {
    const std::size_t from = html.find("<" + name + ">") + name.size() + 2;
    html.erase(from, html.find("</" + name + ">") - from);
  }
  std::vector<std::string> tags;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at)) {
    const std::size_t end = html.find('>', at);
    tags.push_back(html.substr(at, end - at + 1));
    at = end;
  }
  return tags;
}

std::string name_of(const std::string& tag) {
  return tag.substr(1, tag.find_first_of(" />", tag[1] == '/' ? 2 : 1) - 1);
}

// Names of tags and attributes, without the values.
std::string form_of(const std::string& tag) {
  std::string form = "<" + name_of(tag);
  bool inside = false;
  for (std::size_t at = 0; at < tag.size(); ++at) {
    if (tag[at] == '"') inside = !inside;
    if (inside || tag[at] != '=') continue;
    const std::size_t from = tag.rfind(' ', at);
    form += " " + tag.substr(from + 1, at - from - 1);
  }
  return form;
}

void expect_balanced(const std::string& html) {
  const std::set<std::string> kVoid = {"meta", "input", "!DOCTYPE"};
  std::vector<std::string> open;
  for (const std::string& tag : tags_of(html)) {
    const std::string name = name_of(tag);
    if (kVoid.contains(name) || tag.ends_with("/>")) continue;
    if (name[0] != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    ASSERT_EQ("/" + open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

std::string page_of(const FakeStore& store) {
  reports::ReportRequest request = fixtures::request_for(store, reports::Format::html);
  for (const harness::CaseRecord& record : store.case_rows) {
    reports::Lane lane;
    lane.phases = {{"forward", 0, 100, 1, false, -1, "", 0},
                   {"backward", 100, 400, 1, true, -1, "", 0}};
    lane.collectives = {{"allreduce", 120, 400, 1, true, 3, "default", 42}};
    lane.moments = {{400, "signal 9"}};
    request.timelines[record.id] = {
        400, {lane}, {{"nothing moved", 200, 400, 0, false, -1, "", 0}}, {{400, "still"}}};
  }
  return reports::render_report(store, request);
}

// Several of everything that a page can have.
std::vector<FakeStore> stores() {
  return {fixtures::sample_store(),
          fixtures::long_store(),
          fixtures::bisected_store(false),
          fixtures::bisected_store(true),
          fixtures::diagnosed_store()};
}

// Everything that is written down and shown: leaves of a block.
void take_leaves(const std::vector<Block>& blocks, std::vector<std::string>& leaves) {
  for (const Block& block : blocks) {
    for (const reports::Span& span : block.text) leaves.push_back(span.text);
    for (const auto& row : block.rows) {
      for (const reports::Spans& cell : row) {
        for (const reports::Span& span : cell) leaves.push_back(span.text);
      }
    }
    if (block.language != "mermaid") leaves.push_back(block.code);
    for (const auto& item : block.items) take_leaves(item, leaves);
  }
}

TEST(Html, SaysWhatTheMarkdownReportSays) {
  for (const FakeStore& store : stores()) {
    const std::string page = page_of(store);
    std::vector<std::string> leaves;
    take_leaves(reports::blocks_of(reports::render_report(store, fixtures::request_for(store))),
                leaves);
    ASSERT_GT(leaves.size(), 50U);
    for (std::string leaf : leaves) {
      if (leaf.starts_with("NO-GO: ")) leaf = leaf.substr(7);  // its first word has a colour
      if (leaf.ends_with("\n")) leaf.pop_back();
      if (leaf.starts_with("Next: ")) leaf = leaf.substr(6);
      EXPECT_NE(page.find(reports::html::text(leaf)), std::string::npos) << leaf;
    }
  }
}

TEST(Html, IsWellFormedAndItsLinksLeadSomewhere) {
  for (const FakeStore& store : stores()) {
    const std::string page = page_of(store);
    expect_balanced(page);
    std::set<std::string> ids;
    std::vector<std::string> links;
    for (const std::string& tag : tags_of(page)) {
      const std::string id = value_of(tag, "id");
      EXPECT_TRUE(id.empty() || ids.insert(id).second) << id;
      if (tag.find(" href=") != std::string::npos) links.push_back(value_of(tag, "href"));
      EXPECT_EQ(tag.find(" src="), std::string::npos) << "needs no other file: " << tag;
    }
    ASSERT_FALSE(links.empty());
    for (const std::string& link : links) {
      ASSERT_TRUE(link.starts_with("#")) << link;
      EXPECT_TRUE(ids.contains(link.substr(1))) << link;
    }
  }
}

// The first screen names the cause; one click leads to the case, the next one to its evidence.
TEST(Html, EveryFailureIsTwoClicksAway) {
  for (const FakeStore& store : {fixtures::sample_store(), fixtures::long_store()}) {
    const std::string page = page_of(store);
    const reports::ReportView view = reports::make_view(store, fixtures::request_for(store));
    const reports::Cases failed = reports::failed_cases(view);
    ASSERT_FALSE(failed.empty());
    const std::string first = page.substr(page.find("id=\"failed\""), page.find("id=\"cases\""));
    for (const reports::CaseView* one : failed) {
      const std::string id = reports::html::case_id(*one);
      EXPECT_NE(first.find("href=\"#" + id + "\""), std::string::npos) << one->record.label;
      const std::size_t card = page.find("<article class=\"card\" id=\"" + id + "\"");
      ASSERT_NE(card, std::string::npos) << one->record.label;
      if (one->record.judgement->findings.empty()) continue;
      const std::string inside = page.substr(card, page.find("</article>", card) - card);
      EXPECT_NE(inside.find("href=\"#critical-findings"), std::string::npos) << one->record.label;
      EXPECT_NE(inside.find("href=\"#evidence"), std::string::npos) << one->record.label;
    }
  }
}

// Every text that comes from a user, a rank or a file, of two runs of one night.
FakeStore store_with(const std::string& text) {
  FakeStore store = fixtures::sample_store();
  for (harness::RunRecord& run : store.run_rows) {
    run.name += text;
    run.folder += text;
    harness::Provenance& from = run.provenance;
    for (std::string* one :
         {&from.commit, &from.diff_hash, &from.source_hash, &from.binary_hash, &from.argv}) {
      *one += text;
    }
    from.machine.push_back({"cpu" + text, text});
    from.machine.push_back({"gpu2", text});
    from.environment.push_back({"X" + text, text});
    from.command = {{"program", text}, {"database", text}, {"set", "a=" + text}};
  }
  for (harness::CaseRecord& record : store.case_rows) {
    record.scenario += text;
    record.label += text;
    record.folder += text;
    record.profile += text;
    record.case_id += text;
    harness::Digest& digest = record.digest;
    digest.recorded = true;
    for (std::string* one : {&digest.device, &digest.backend, &digest.torch_version}) *one += text;
    digest.arrivals.push_back({1, 1, 2, 1, {text}});
    digest.phases.push_back({0, text, 5});
    digest.files.push_back({0, text, 5, text});
    digest.metrics.push_back({"peak_bytes." + text, 5.0});
    digest.metrics.push_back({"x" + text, 5.0});
    digest.metrics.push_back({harness::kStepMs, 3.0});
    digest.metrics.push_back({harness::kControlMs, 2.0});
    if (!record.skip_reason.empty()) record.skip_reason += text;
    if (!record.judgement) continue;
    record.judgement->reason += text;
    for (harness::CheckResult& result : record.judgement->verdicts) {
      result.reason += text;
      result.check += text;
      for (harness::Measured& measured : result.measured) measured.name += text;
    }
    for (harness::Finding& finding : record.judgement->findings) {
      for (std::string* one : {&finding.code,
                               &finding.statement,
                               &finding.ruled_out,
                               &finding.next_action,
                               &finding.tie,
                               &finding.site.op,
                               &finding.site.param,
                               &finding.site.phase}) {
        *one += text;
      }
      finding.facts["message"] = text;
      finding.not_judged = {{text, text, {}}};
    }
  }
  return store;
}

std::string hostile_page(const std::string& text) {
  const FakeStore store = store_with(text);
  reports::ReportRequest request = fixtures::request_for(store, reports::Format::html);
  request.runs = store.run_rows;
  request.about_range = "range" + text;
  request.check_about = {{"check" + text, "about" + text}};
  for (const harness::CaseRecord& record : store.case_rows) {
    reports::Lane lane;
    lane.phases = {{"p" + text, 0, 100, 1, true, -1, "", 0}};
    lane.collectives = {{"o" + text, 120, 400, 1, true, 3, "g" + text, 42}};
    lane.moments = {{400, "m" + text}};
    request.timelines[record.id] = {
        400, {lane}, {{"s" + text, 200, 400, 0, false, -1, "", 0}}, {{400, "e" + text}}};
  }
  return reports::render_report(store, request);
}

// Whatever the text is, the page has the same tags with the same attributes as with a harmless word there.
TEST(Html, NoTextIsMarkup) {
  std::vector<std::string> wanted;
  for (const std::string& tag : tags_of(hostile_page(" word"))) wanted.push_back(form_of(tag));
  for (const std::string& text :
       {std::string("<script>alert(1)</script>"),
        std::string("\" onload=\"alert(1)"),
        std::string("' onload='x"),
        std::string("]]></style></script>-->"),
        std::string("</details></summary></table>"),
        std::string("&lt;b&gt; &amp; &#60;i>"),
        std::string("a\nb\n\n# c\n- d\n| e | f |\n```\n</code>"),
        std::string("**x** \\ ` | http://evil.example www.evil.example"),
        std::string("\x01\x1b[0m\x7f\r\xff\xc0\x80\xed\xa0\x80 \xef\xbf\xbf"),
        std::string("\xe2\x80\xae"
                    "abc"
                    "\xe2\x81\xa6"),
        std::string("x\0y", 3)}) {
    const std::string page = hostile_page(text);
    std::vector<std::string> forms;
    for (const std::string& tag : tags_of(page)) forms.push_back(form_of(tag));
    ASSERT_EQ(forms, wanted) << text;
    expect_balanced(page);
    for (const char c : page) {
      ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') << text;
    }
    for (const char* byte : {"\xff", "\xc0", "\xed\xa0", "\xef\xbf\xbf", "\xe2\x80\xae", "\x7f"}) {
      EXPECT_EQ(page.find(byte), std::string::npos) << text;
    }
  }
}

// As many values as a check of a layer measures.
void measure(harness::CaseRecord& record) {
  for (int i = 0; i < 40; ++i) {
    const std::string name = "relative_error_g.w.some_parameter_" + std::to_string(i) + ".weight";
    record.judgement->verdicts[0].measured.push_back({name, 1.234e-7, harness::Real(4.32e-5)});
  }
}

// A night of 327 cases of 147 scenarios, thirty of them failing, fits into 2 MB.
TEST(Html, OfANightIsNotTooLarge) {
  fixtures::LongRun run;
  for (int scenario = 0; scenario < 30; ++scenario) {
    fixtures::add_passing(run, "scenario_" + std::to_string(scenario), 7);
  }
  for (int i = 0; i < 87; ++i) {
    run.add("planted_" + std::to_string(i), {}, fixtures::passed());
    run.store.case_rows.back().judgement->findings = fixtures::failed().findings;
  }
  for (int i = 0; i < 30; ++i) {
    run.add("failing_" + std::to_string(i), {}, fixtures::failed());
    for (int file = 0; file < 100; ++file) {
      const std::string path = "rank_0/step_1/some_tensor_" + std::to_string(file) + ".safetensors";
      run.store.case_rows.back().digest.files.push_back({0, path, 1000, "0011223344556677"});
    }
  }
  for (harness::CaseRecord& record : run.store.case_rows) measure(record);
  ASSERT_EQ(run.store.case_rows.size(), 327U);
  const std::string page = page_of(run.store);
  EXPECT_LE(page.size(), 2'000'000U);
  EXPECT_GE(page.size(), 500'000U) << "a night has more than this";
  RecordProperty("bytes", static_cast<int>(page.size()));
  EXPECT_EQ(page, page_of(run.store)) << "the same rows give the same bytes";
}

// Most of a night was not decided, each case of a scenario of its own, and three failed among them.
TEST(Html, OfANightThatIsMostlyUndecidedIsNotTooLargeAndHasEveryFailure) {
  fixtures::LongRun run;
  const std::string undecided = "the file of the layer is not there any more (pruned?)";
  for (int i = 0; i < 327; ++i) {
    const std::string name = "scenario_" + std::to_string(i);
    if (i == 1 || i == 150 || i == 326) {
      run.add(name, {}, fixtures::failed());
    } else if (i < 250) {
      run.add(name,
              {},
              fixtures::judged_as(Outcome::inconclusive, undecided + " " + std::to_string(i)));
      run.store.case_rows.back().judgement->findings.clear();
    } else {
      run.add(name, {}, fixtures::passed());
    }
    for (int file = 0; file < 30; ++file) {
      const std::string path = "rank_0/step_1/some_tensor_" + std::to_string(file) + ".safetensors";
      run.store.case_rows.back().digest.files.push_back({0, path, 1000, "0011223344556677"});
    }
    harness::Judgement& judgement = *run.store.case_rows.back().judgement;
    while (judgement.verdicts.size() < 12) judgement.verdicts.push_back(judgement.verdicts.back());
  }
  for (harness::CaseRecord& record : run.store.case_rows) measure(record);
  const std::string page = page_of(run.store);
  EXPECT_LE(page.size(), 2'000'000U);
  RecordProperty("bytes", static_cast<int>(page.size()));
  for (int i = 0; i < 250; ++i) {
    if (i == 1 || i == 150) continue;
    EXPECT_NE(page.find(undecided + " " + std::to_string(i) + "<"), std::string::npos) << i;
  }
  const auto view = reports::make_view(run.store, fixtures::request_for(run.store));
  for (const reports::CaseView* one : reports::failed_cases(view)) {
    EXPECT_NE(page.find("<article class=\"card\" id=\"" + reports::html::case_id(*one)),
              std::string::npos);
  }
}

TEST(Timeline, TellsWhatNeverEnded) {
  harness::Evidence evidence;
  const auto add = [&](int process, std::int64_t t_ms, const auto& row) {
    evidence.add(harness::Event::of(process, t_ms, row));
  };
  add(0, 10, harness::Phase{"forward", 1});
  add(1, 12, harness::Phase{"forward", 1});
  add(0, 50, harness::Phase{"backward", 1});
  harness::Collective reduce;
  reduce.op = "allreduce";
  reduce.group = "default";
  add(0, 60, reduce);
  add(0, 70, harness::CollectiveDone{0, "default"});
  reduce.sequence = 1;
  add(0, 80, reduce);
  harness::Suspect suspect;
  suspect.still_ms = 900;
  add(harness::kController, 1000, suspect);
  harness::Stopped stopped;
  stopped.reason = "still";
  add(harness::kController, 1100, stopped);
  harness::Exited exited;
  exited.process_ended = 0;
  exited.signal = 9;
  exited.by_controller = true;
  add(harness::kController, 1150, exited);
  const reports::Timeline timeline = reports::timeline_of(evidence);
  EXPECT_EQ(timeline.end_ms, 1150);
  ASSERT_EQ(timeline.lanes.size(), 2U);
  const reports::Lane& lane = timeline.lanes[0];
  ASSERT_EQ(lane.phases.size(), 2U);
  EXPECT_EQ(lane.phases[0].to_ms, 50);
  EXPECT_FALSE(lane.phases[0].open);
  EXPECT_TRUE(lane.phases[1].open);
  EXPECT_EQ(lane.phases[1].to_ms, 1150);
  ASSERT_EQ(lane.collectives.size(), 2U);
  EXPECT_EQ(lane.collectives[0].to_ms, 70);
  EXPECT_FALSE(lane.collectives[0].open);
  EXPECT_TRUE(lane.collectives[1].open);
  ASSERT_EQ(lane.moments.size(), 1U);
  EXPECT_EQ(lane.moments[0].what, "signal 9, ended by nsa-harness");
  ASSERT_EQ(timeline.standstills.size(), 1U);
  EXPECT_EQ(timeline.standstills[0].from_ms, 100);
  EXPECT_EQ(timeline.standstills[0].to_ms, 1100);
}

}  // namespace
