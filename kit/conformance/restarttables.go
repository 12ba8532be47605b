package conformance

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// restartsTable is the documentation of restarts for users. The tests read their cases from it, so that the
// documentation stays correct.
//
//go:embed restarts.md
var restartsTable string

// causes maps each row of the tables, such as "exit 1", to a function. The function returns a step in which that
// cause happens to the replica of an index.
var causes = map[string]func(index int) step{
	"exit 0":                            func(i int) step { return exits(i, 0) },
	"exit 1":                            func(i int) step { return exits(i, 1) },
	"exit 137":                          func(i int) step { return exits(i, 137) },
	"exit 143":                          func(i int) step { return exits(i, 143) },
	"out of memory":                     ranOutOfMemory,
	"over its ephemeral-storage limit":  ranOutOfStorage,
	"preempted":                         preempted,
	"deleted by hand":                   deleted,
	"node shut down":                    nodeShutDown,
	"node lost":                         losesNode,
	"node restarted without a shutdown": losesContainers,
	"rejected by its node":              rejected,
	"device unhealthy":                  losesDevice,
	"device with a taint":               hasTaintedDevice,
}

// testRestarts tests every cell of the tables in restarts.md.
func testRestarts(t *testing.T, k model.Kind) {
	t.Helper()
	cells := 0
	all := tables(restartsTable)
	for heading, table := range all {
		heading, ok := strings.CutPrefix(heading, "Scope ")
		if !ok {
			continue
		}
		scope, who, _ := strings.Cut(heading, ", ")
		index := 1
		if who == "the leader" {
			index = 0
		}
		for row, columns := range table {
			for policy, cell := range columns {
				cells++
				for _, restarted := range []bool{false, true} {
					c := restartCase{
						scope: batchv1beta1.RestartScope(scope), policy: batchv1beta1.RestartPolicy(policy), index: index,
						cause: row, failure: all["Entries in `status.failures`"][row], cell: cell, crashing: restarted,
					}
					t.Run(c.name(), func(t *testing.T) {
						t.Parallel()
						c.check(t, k)
					})
				}
			}
		}
	}
	if want := 3 * 2 * 4 * len(causes); cells != want {
		t.Errorf("the tables have %d cells, want %d", cells, want)
	}
}

// restartCase is one cell of the tables.
type restartCase struct {
	scope  batchv1beta1.RestartScope
	policy batchv1beta1.RestartPolicy
	index  int
	cause  string
	// failure is the expected entry of status.failures, by field.
	failure map[string]string
	cell    string
	// crashing is set if the controller crashes after each of its writes.
	crashing bool
}

func (c restartCase) name() string {
	who, controller := "another replica", "a controller that keeps running"
	if c.index == 0 {
		who = "the leader"
	}
	if c.crashing {
		controller = "a controller that crashes after each write"
	}
	return fmt.Sprintf("scope %s/%s/%s/%s/%s", c.scope, who, c.policy, c.cause, controller)
}

// counts are the parts of the status that the tables define.
type counts struct {
	Phase    batchv1beta1.JobPhase
	Backoff  int32
	Restarts int32
	// ReplicaFailure is the status of the condition ReplicaFailure.
	ReplicaFailure bool
	// Failures are the recorded failures, newest first: replica, reason, exit code, and whether the failure counted.
	Failures []string
}

func (w *world) counts() counts {
	status := w.status()
	c := counts{
		Phase: status.Phase, Backoff: status.BackoffCount,
		ReplicaFailure: meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionReplicaFailure),
	}
	for _, task := range status.Tasks {
		c.Restarts += task.RestartCount
	}
	for _, f := range status.Failures {
		code := ""
		if f.ExitCode != nil {
			code = fmt.Sprint(*f.ExitCode)
		}
		c.Failures = append(c.Failures, fmt.Sprintf("%s %s %s %t", f.Replica, f.Reason, code, f.Counted))
	}
	return c
}

// check makes the cause happen to a replica as often as the cell requires, and checks the counts each time. The job
// allows one restart that counts.
func (c restartCase) check(t *testing.T, k model.Kind) {
	t.Helper()
	w := newWorld(t, k)
	w.crashing = c.crashing
	w.process.crashing = c.crashing
	w.do(created(two(c.policy, c.scope, limit(1))))
	want := counts{Phase: batchv1beta1.JobPhasePending}
	// A node rejects a pod that has not started. All other causes happen to a running pod.
	starting := c.cause == "rejected by its node"
	failed := func() {
		entry := fmt.Sprintf("%s %s %s %s", w.podName(c.index), c.failure["reason"], c.failure["exitCode"],
			c.failure["counted"])
		want.Failures = append([]string{entry}, want.Failures...)
		want.ReplicaFailure = true
	}
	restarts := int32(2)
	if c.scope == scopeReplica || c.scope == model.ScopeRendezvous && c.index != 0 && c.cell == "ignored" {
		restarts = 1
	}
	happens := func() { w.do(causes[c.cause](c.index)) }
	expect := func(when string) {
		t.Helper()
		if diff := gocmp.Diff(want, w.counts()); diff != "" {
			t.Fatalf("the counts are not as expected %s (-want +got):\n%s", when, diff)
		}
	}
	// The function ends waits until the pods are gone, and checks that the job has finished with the given phase.
	ends := func(phase batchv1beta1.JobPhase, when string) {
		t.Helper()
		w.do(passes(2 * time.Minute))
		want.Phase = phase
		expect(when)
	}
	leaderSucceeds := func() {
		t.Helper()
		w.do(exits(0, 0))
		ends(batchv1beta1.JobPhaseSucceeded, "when the leader has succeeded")
	}
	// The function replaced waits until the restart delay is over. By then, a pod on a lost node has been deleted by
	// force. Then replaced starts the new pods, unless the cause of the failure happens only to pods that have not
	// started.
	replaced := func() {
		t.Helper()
		w.do(passes(2 * time.Minute))
		if starting {
			return
		}
		w.do(run)
		want.Phase, want.ReplicaFailure = batchv1beta1.JobPhaseRunning, false
		expect("once the replacement runs")
	}

	if !starting {
		w.do(run)
	}
	happens()
	switch c.cell {
	case "succeeds":
		ends(batchv1beta1.JobPhaseSucceeded, "at the end")
	case "done":
		want.Phase = batchv1beta1.JobPhaseRunning
		expect("when the replica is done")
		leaderSucceeds()
	case "reruns":
		for range 3 {
			want.Restarts++
			want.Phase = batchv1beta1.JobPhasePending
			expect("when the replica has succeeded")
			replaced()
			happens()
		}
	case "ignored":
		for range 3 {
			want.Restarts += restarts
			want.Phase = batchv1beta1.JobPhasePending
			failed()
			expect("after the failure")
			replaced()
			happens()
		}
	case "counted":
		want.Backoff, want.Restarts = 1, restarts
		failed()
		expect("after the failure")
		replaced()
		happens()
		failed()
		if c.scope == scopeReplica && c.index != 0 {
			want.Phase = batchv1beta1.JobPhaseRunning
			expect("when the backoffLimit is reached")
			leaderSucceeds()
			return
		}
		ends(batchv1beta1.JobPhaseFailed, "when the backoffLimit is reached")
	case "fails":
		failed()
		ends(batchv1beta1.JobPhaseFailed, "at the end")
	case "goes on":
		w.do(passes(time.Hour))
		want.Phase = batchv1beta1.JobPhaseRunning
		expect("while the replica goes on")
		leaderSucceeds()
	case "stays failed":
		w.do(run)
		want.Phase = batchv1beta1.JobPhaseRunning
		failed()
		expect("after the failure")
		leaderSucceeds()
	default:
		t.Fatalf("the table has the cell %q, which is not in its legend", c.cell)
	}
}

// tables returns the cells of the tables in a Markdown text. The keys are the heading above the table, the first cell
// of the row, and the heading of the column.
func tables(text string) map[string]map[string]map[string]string {
	found := map[string]map[string]map[string]string{}
	heading := ""
	var columns []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if after, ok := strings.CutPrefix(line, "#"); ok {
			heading, columns = strings.TrimLeft(after, "# "), nil
			found[heading] = map[string]map[string]string{}
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if columns == nil {
			columns = cells[1:]
			continue
		}
		row := map[string]string{}
		for i, column := range columns {
			row[column] = cells[i+1]
		}
		found[heading][cells[0]] = row
	}
	return found
}
