#include "batch.hpp"

#include <algorithm>
#include <utility>

namespace specgate::drafting {
namespace {

template <class T>
std::span<const T> upto(std::span<const T> all, std::size_t most) {
  return all.first(std::min(all.size(), most));
}

}  // namespace

Batch::Batch(policy::Price& price, policy::ForwardDrafter native, policy::ForwardDrafter head,
             std::function<double(std::size_t)> head_time)
    : price_(price),
      native_(std::move(native)),
      head_(std::move(head)),
      head_time_(std::move(head_time)) {}

Request* Batch::find(std::string_view name) {
  const auto found = running_.find(std::string(name));
  return found == running_.end() ? nullptr : found->second.get();
}

Request& Batch::begin(std::string_view name, const Wishes& wishes) {
  auto request = std::make_unique<Request>();
  request->most = wishes.most;
  request->left = wishes.left;
  request->wants_suffix = wishes.suffix;
  request->name = name;
  if (wishes.most > 0 && wishes.head && head_.most() > 0) request->head = head_.guesser();
  if (wishes.most > 0 && wishes.native && native_.most() > 0) request->native = native_.guesser();
  return *(running_[request->name] = std::move(request));
}

void Batch::clear() {
  rows_.clear();
  sampled_.clear();
  drafts_.clear();
}

void Batch::add(Request& request, std::size_t at, std::span<const Token> sampled) {
  rows_.push_back({&request, at, sampled, 0, {}});
  sampled_.insert(sampled_.end(), sampled.begin(), sampled.end());
}

void Batch::learn() {
  std::size_t drafted = 0;
  const Token* sampled = sampled_.data();
  for (Row& row : rows_) {
    Request& request = *row.request;
    row.sampled = {sampled, row.sampled.size()};
    sampled += row.sampled.size();
    if (request.native) request.native->learn(row.sampled);
    if (request.head) request.head->learn(row.sampled);
    drafted += std::exchange(request.drafted, 0);
    request.left -= static_cast<std::int64_t>(row.sampled.size());
    // The next step brings one token more than it drafts.
    const std::int64_t room = std::max<std::int64_t>(request.left - 1, 0);
    row.room = std::min(static_cast<std::size_t>(room), request.most);
  }
  price_.learn(rows_.size(), drafted, sampled_.size());
}

void Batch::ask() {
  floor_ = price_.floor(rows_.size());
  if (source_ != nullptr) source_->advance(rows_, floor_, drafts_);
}

double Batch::settle() {
  pool_.clear();
  for (const Row& row : rows_) {
    const auto survival = drafts_.survival(row.best);
    pool_.insert(pool_.end(), survival.begin(), survival.end());
  }
  return price_.settle(pool_, rows_.size());
}

void Batch::offer_native(Row& row, std::span<const Token> tokens, double price) {
  tokens = upto(tokens, native_.most());
  if (!row.request->native || tokens.empty()) return;
  const std::vector<double> survival = row.request->native->propose(tokens, std::nullopt);
  prefer(row, drafts_.add(upto(tokens, row.room), upto(std::span(survival), row.room), {kNative}),
         price);
}

std::vector<Row*> Batch::head_rows(double price) {
  std::vector<Row*> able;
  std::vector<Row*> wanted;
  double gains = 0.0;
  for (Row& row : rows_) {
    if (!row.request->head || row.room == 0) continue;
    able.push_back(&row);
    double gain = row.request->head->expected_gain(row.room, price);
    // Above what the row has.
    if (row.best && gain > 0.0) gain = std::max(0.0, gain - drafts_.gain(row.best, price));
    if (gain > 0.0) wanted.push_back(&row);
    gains += gain;
  }
  const double cost = price_.of_time(time_of_head(wanted.size()), rows_.size());
  if (!head_.runs(gains > cost)) return {};
  return wanted.empty() ? able : wanted;
}

void Batch::offer_head(Row& row, std::span<const Token> tokens,
                       std::span<const double> confidence, double price) {
  const std::vector<double> survival = row.request->head->propose(tokens, confidence);
  prefer(row, head_draft(row, tokens, survival), price);
}

Draft Batch::head_draft(const Row& row, std::span<const Token> tokens,
                        std::span<const double> survival) {
  const std::size_t length = policy::paying(survival, floor_);
  if (source_ != nullptr && row.request->in_source && row.request->wants_suffix && length > 0 &&
      length < row.room) {
    const Draft sure = drafts_.add(tokens.first(length), survival.first(length), {kHead});
    if (const Draft longer = source_->go_on(row, sure, floor_, drafts_)) return longer;
  }
  return drafts_.add(upto(tokens, row.room), upto(survival, row.room), {kHead});
}

void Batch::prefer(Row& row, const Draft& draft, double price) {
  if (draft && (!row.best || drafts_.gain(draft, price) > drafts_.gain(row.best, price))) {
    row.best = draft;
  }
}

std::size_t Batch::cut(Row& row, double price) {
  return row.request->drafted = drafts_.paying(row.best, price);
}

std::size_t Batch::native_tokens() {
  const double floor = price_.floor(std::max<std::size_t>(1, running_.size()));
  const bool wanted =
      running_.empty() || std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
        const auto& native = entry.second->native;
        return native && native->expected_gain(native_.most(), floor) > 0.0;
      });
  return native_.runs(wanted) ? native_.most() : 0;
}

double Batch::time_of_head(std::size_t rows) {
  if (rows >= head_times_.size()) head_times_.resize(rows + 1, -1.0);
  if (head_times_[rows] < 0.0) head_times_[rows] = head_time_(rows);
  return head_times_[rows];
}

}  // namespace specgate::drafting
