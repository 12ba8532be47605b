package controller

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The progress of a job is written at most once in 30 seconds. The writes for all jobs are spread over time.
func TestWhenProgressIsDue(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	a, b, other := types.NamespacedName{Namespace: "ns", Name: "a"}, types.NamespacedName{Namespace: "ns", Name: "b"},
		types.NamespacedName{Namespace: "other", Name: "a"}
	for name, tc := range map[string]struct {
		// The function before prepares the budget. After that, the test calls the method due for the job a.
		before func(*progressBudget)
		// at is when the test calls the method due for the job a. want is the time that the method returns. Both are
		// relative to now.
		at, want time.Duration
		// The field without is true if the job a has no news.
		without bool
	}{
		"the first write is due immediately": {before: func(*progressBudget) {}},
		"the first write of the second job of a namespace is due 40 ms later": {
			before: func(budget *progressBudget) { budget.due(b, now, true) }, want: 40 * ms,
		},
		"the first write of the third job of a namespace is due 80 ms later": {
			before: func(budget *progressBudget) {
				budget.due(b, now, true)
				budget.due(types.NamespacedName{Namespace: "ns", Name: "c"}, now, true)
			},
			want: 80 * ms,
		},
		"the first write of a job is not later because another namespace waits": {
			before: func(budget *progressBudget) { budget.due(other, now, true) },
		},
		"a job that asks again has the same time": {
			before: func(budget *progressBudget) {
				budget.due(b, now, true)
				budget.due(a, now, true)
			},
			at: 20 * ms, want: 40 * ms,
		},
		"a time that has passed stays until the write": {
			before: func(budget *progressBudget) { budget.due(a, now, true) }, at: time.Minute,
		},
		"the next write is due 30 seconds after the last one": {
			before: func(budget *progressBudget) {
				budget.due(a, now, true)
				budget.wrote(a, now.Add(time.Second))
			},
			at: 20 * time.Second, want: 31 * time.Second,
		},
		"30 seconds after the last write, the next one is due immediately": {
			before: func(budget *progressBudget) {
				budget.due(a, now, true)
				budget.wrote(a, now)
			},
			at: 30 * time.Second, want: 30 * time.Second,
		},
		"30 seconds after the last write, the next one waits for other writes": {
			before: func(budget *progressBudget) {
				budget.due(a, now, true)
				budget.wrote(a, now)
				budget.due(b, now.Add(30*time.Second), true)
			},
			at: 30 * time.Second, want: 30*time.Second + 40*ms,
		},
		"a job without news waits for no other writes": {
			before: func(budget *progressBudget) { budget.due(b, now, true) }, without: true,
		},
		"a job without news takes no part of the budget": {
			before: func(budget *progressBudget) {
				for range 10 {
					budget.due(b, now, false)
				}
			},
		},
		"a job that was forgotten begins again": {
			before: func(budget *progressBudget) {
				budget.due(a, now, true)
				budget.wrote(a, now)
				budget.jobs.Forget(a)
			},
			at: time.Second, want: time.Second,
		},
		"a write of a job that was forgotten has no effect": {
			before: func(budget *progressBudget) {
				budget.due(a, now, true)
				budget.jobs.Forget(a)
				budget.wrote(a, now)
			},
			at: time.Second, want: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget := &progressBudget{}
			tc.before(budget)
			diff(t, "due", tc.want, budget.due(a, now.Add(tc.at), !tc.without).Sub(now))
		})
	}
}

// After a restart of the controller, all jobs need a write at the same time.
func TestWritesOfManyJobsAreSpread(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// jobs is the number of jobs of each namespace.
		jobs map[string]int
		// want is when the last write of each namespace is due, relative to now.
		want map[string]time.Duration
	}{
		"a namespace alone has 25 writes per second": {
			jobs: map[string]int{"a": 101}, want: map[string]time.Duration{"a": 4 * time.Second},
		},
		"a namespace with few jobs does not wait for one with many": {
			jobs: map[string]int{"a": 1000, "b": 1},
			want: map[string]time.Duration{"a": 999 * 40 * time.Millisecond, "b": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget, got := &progressBudget{}, map[string]time.Duration{}
			for _, namespace := range []string{"a", "b"} {
				for i := range tc.jobs[namespace] {
					due := budget.due(types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}, now, true)
					got[namespace] = due.Sub(now)
				}
			}
			diff(t, "last write", tc.want, got)
		})
	}
}

// Two namespaces with the same number of jobs get equal shares of the writes.
func TestNamespacesShareTheWrites(t *testing.T) {
	t.Parallel()
	budget, writes := &progressBudget{}, map[string]int{}
	for i := range 1000 {
		for _, namespace := range []string{"a", "b"} {
			due := budget.due(types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}, now, true)
			if due.Before(now.Add(10 * time.Second)) {
				writes[namespace]++
			}
		}
	}
	// Namespace a gets one more write: it reserves its first write before namespace b waits, so its second write is due
	// earlier.
	diff(t, "writes in 10 seconds", map[string]int{"a": 126, "b": 125}, writes)
}

// The budget remembers only namespaces whose writes wait.
func TestTheBudgetForgetsNamespaces(t *testing.T) {
	t.Parallel()
	budget := &progressBudget{}
	for i := range 100 {
		budget.due(types.NamespacedName{Namespace: fmt.Sprint(i), Name: "job"}, now.Add(time.Duration(i)*time.Minute), true)
	}
	diff(t, "namespaces", 1, len(budget.next))
}
