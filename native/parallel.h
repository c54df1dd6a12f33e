// Threads for one call: as many as were asked for, when the work is worth starting them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace scstream {

// Multiply-adds below which a second thread costs more than it brings.
constexpr double WORTH_A_THREAD = 1e7;

inline int& threads_wanted() {
    static thread_local int wanted = 1;
    return wanted;
}

inline int threads_for(double work, int64_t tasks) {
    int64_t n = work < WORTH_A_THREAD ? 1 : threads_wanted();
    return int(n < tasks ? n : tasks);
}

// Run task(0) .. task(n - 1), each once, on a number of threads; the first error is thrown again.
template <class Task> void run_tasks(int64_t n, int threads, Task task) {
    std::atomic<int64_t> next{0};
    std::exception_ptr error;
    std::mutex guard;
    auto work = [&] {
        try {
            for (int64_t i = next++; i < n; i = next++) task(i);
        } catch (...) {
            std::lock_guard<std::mutex> lock(guard);
            if (!error) error = std::current_exception();
            next = n;
        }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work);
    work();
    for (auto& other : others) other.join();
    if (error) std::rethrow_exception(error);
}

// Run range(begin, end) over [0, n) in pieces that begin at multiples of `grain`.
template <class Range> void run_ranges(int64_t n, int64_t grain, int threads, Range range) {
    if (threads <= 1) return range(int64_t(0), n);
    int64_t piece = (n / (4 * threads) / grain + 1) * grain;
    run_tasks((n + piece - 1) / piece, threads, [&](int64_t i) {
        range(i * piece, (i + 1) * piece < n ? (i + 1) * piece : n);
    });
}

// Blocks of zeros. Those that were put back are used again: to map large ones anew costs page faults.
class Blocks {
  public:
    explicit Blocks(int64_t size) : size_(size) {}

    std::vector<double> get() {
        std::vector<double> block;
        {
            std::lock_guard<std::mutex> lock(guard_);
            if (!spare_.empty()) {
                block = std::move(spare_.back());
                spare_.pop_back();
            }
        }
        block.assign(size_t(size_), 0.0);
        return block;
    }

    void put(std::vector<double> block) {
        std::lock_guard<std::mutex> lock(guard_);
        spare_.push_back(std::move(block));
    }

    int64_t size() const { return size_; }

  private:
    int64_t size_;
    std::mutex guard_;
    std::vector<std::vector<double>> spare_;
};

// Adds blocks 0 .. n - 1 in the fixed tree of `core.slices.add_up`, whatever order they come in.
class TreeSum {
  public:
    TreeSum(int64_t n, Blocks& blocks) : blocks_(blocks) {
        for (; n > 1; n = (n + 1) / 2) waiting_.emplace_back(n);
        waiting_.emplace_back(1);
    }

    void add(int64_t index, std::vector<double> block) {
        for (size_t level = 0; level + 1 < waiting_.size(); ++level, index /= 2) {
            const bool alone = (index ^ 1) >= int64_t(waiting_[level].size());
            if (alone) continue;
            std::vector<double> left;
            {
                std::lock_guard<std::mutex> lock(guard_);
                std::vector<double>& sibling = waiting_[level][index ^ 1];
                if (sibling.empty()) {
                    waiting_[level][index] = std::move(block);
                    return;
                }
                left = std::move(sibling);
            }
            if (index % 2 == 0) left.swap(block);
            for (int64_t i = 0; i < blocks_.size(); ++i) left[i] += block[i];
            blocks_.put(std::move(block));
            block = std::move(left);
        }
        waiting_.back()[0] = std::move(block);
    }

    std::vector<double> take() { return std::move(waiting_.back()[0]); }

  private:
    Blocks& blocks_;
    std::mutex guard_;
    std::vector<std::vector<std::vector<double>>> waiting_;  // by level of the tree and index
};

}  // namespace scstream
