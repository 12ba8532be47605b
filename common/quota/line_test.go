package quota

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
)

var (
	now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	few = types.NamespacedName{Namespace: "vision", Name: "few"}
)

func jobNamed(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "vision", Name: name}
}

func TestLine(t *testing.T) {
	t.Parallel()
	// ask is a call of Line.Ask: when the job was created, when it asks, how many pods it needs, and how many are free.
	type ask struct {
		job         string
		created, at time.Duration
		pods, free  string
		want        bool
		leaves      bool
	}
	for name, asks := range map[string][]ask{
		"a job goes when it fits": {
			{job: "a", pods: "4", free: "3"},
			{job: "a", pods: "4", free: "4", want: true},
		},
		"the oldest job goes first, whatever its name is": {
			{job: "z-old", pods: "4", free: "2"},
			{job: "young", created: time.Second, pods: "4", free: "6"},
			{job: "z-old", pods: "4", free: "6", want: true},
		},
		"a job goes beside an older one if there is room for both": {
			{job: "old", pods: "4", free: "2"},
			{job: "young", created: time.Second, pods: "2", free: "6", want: true},
		},
		"a job does not wait for an older one that does not fit": {
			{job: "old", pods: "8", free: "2"},
			{job: "young", created: time.Second, pods: "4", free: "6", want: true},
		},
		"jobs of the same age go in the order of their names": {
			{job: "b", pods: "4", free: "2"},
			{job: "a", pods: "4", free: "6", want: true},
			{job: "b", pods: "4", free: "6"},
		},
		"a job that leaves has no place": {
			{job: "old", pods: "4", free: "2", leaves: true},
			{job: "young", created: time.Second, pods: "4", free: "6", want: true},
		},
		"a job that does not ask again loses its place": {
			{job: "old", pods: "4", free: "2"},
			{job: "young", created: time.Second, at: forgetAfter, pods: "4", free: "6"},
			{job: "young", created: time.Second, at: forgetAfter + time.Second, pods: "4", free: "6", want: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var line Line
			for i, a := range asks {
				got := line.Ask(few.Name, jobNamed(a.job), now.Add(a.created), list("pods", a.pods, "cpu", "100"),
					list("pods", a.free), now.Add(a.at))
				if got != a.want {
					t.Errorf("answer %d to %s is %t, want %t", i+1, a.job, got, a.want)
				}
				fitting := line.Fitting(few, list("pods", a.free), now.Add(a.at))
				if slices.Contains(fitting, jobNamed(a.job)) != a.want {
					t.Errorf("question %d: the jobs that fit are %v, want %s: %t", i+1, fitting, a.job, a.want)
				}
				if a.leaves {
					line.Leave(jobNamed(a.job))
				}
			}
		})
	}
}

func TestQuotasThatOtherJobsWaitFor(t *testing.T) {
	t.Parallel()
	var line Line
	check := func(job string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, line.Quotas(jobNamed(job)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("unexpected quotas for job %s (-want +got):\n%s", job, diff)
		}
	}
	ask := func(quota string, job types.NamespacedName) {
		line.Ask(quota, job, now, list("pods", "1"), list("pods", "0"), now)
	}
	check("a")
	ask("few", jobNamed("a"))
	check("a")
	check("b", "few")
	ask("many", jobNamed("b"))
	check("c", "few", "many")
	ask("few", jobNamed("b")) // job b no longer waits for the ResourceQuota named many
	check("a", "few")
	check("c", "few")
	ask("other", types.NamespacedName{Namespace: "speech", Name: "d"})
	check("c", "few")
	line.Leave(jobNamed("a"))
	line.Leave(jobNamed("b"))
	line.Leave(jobNamed("b"))
	check("c")
	if len(line.namespaces) != 1 {
		t.Errorf("the line has the namespaces %v, want only speech", line.namespaces)
	}
}

func TestAResourceThatAJobDoesNotNeedDoesNotMatter(t *testing.T) {
	t.Parallel()
	var line Line
	overused := list("pods", "4", "cpu", "-1")
	if !line.Ask("few", jobNamed("a"), now, list("pods", "4"), overused, now) {
		t.Error("a job that needs no CPU waits for CPU")
	}
	if fitting := line.Fitting(few, overused, now); len(fitting) != 1 {
		t.Errorf("the jobs that fit are %v, want a", fitting)
	}
}

func TestAResourceThatIsNoLongerLimitedDoesNotMatter(t *testing.T) {
	t.Parallel()
	var line Line
	for _, job := range []string{"a", "b"} {
		line.Ask("few", jobNamed(job), now, list("pods", "4"), list("pods", "0"), now)
	}
	if fitting := line.Fitting(few, nil, now); len(fitting) != 2 {
		t.Errorf("the jobs that fit are %v, want a and b", fitting)
	}
}

func TestOnlyTheJobsThatWaitForAResourceQuotaFitInIt(t *testing.T) {
	t.Parallel()
	var line Line
	line.Ask("few", jobNamed("a"), now, list("pods", "1"), list("pods", "0"), now)
	line.Ask("many", jobNamed("b"), now, list("pods", "1"), list("pods", "0"), now)
	if diff := cmp.Diff([]types.NamespacedName{jobNamed("a")}, line.Fitting(few, list("pods", "2"), now)); diff != "" {
		t.Errorf("unexpected jobs that fit (-want +got):\n%s", diff)
	}
}

func TestAJobThatDoesNotAskAgainIsForgotten(t *testing.T) {
	t.Parallel()
	var line Line
	line.Ask("few", jobNamed("a"), now, list("pods", "1"), list("pods", "0"), now)
	line.Fitting(few, nil, now.Add(forgetAfter+time.Second))
	if quotas := line.Quotas(jobNamed("b")); len(quotas) > 0 {
		t.Errorf("a job still waits for %v", quotas)
	}
}
