package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// outputs maps the names of pods to their outputs.
type outputs map[string]string

func (o outputs) Output(_ context.Context, namespace, pod, container string) (string, error) {
	output, ok := o[pod]
	if !ok || namespace != "ns" || container != mainContainer {
		return "", errors.New("not found")
	}
	return output, nil
}

// The status of a pod has only the end of torchrun's output, which does not always show the replica that raised an
// exception first. The whole output shows this replica.
func TestReadOutputs(t *testing.T) {
	t.Parallel()
	captured := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "trainlog", "testdata", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	failing := func(torch string) (*jobtest.Builder, map[string]*corev1.Pod) {
		// job-worker-0 has the output of ranks that lost their peers, and job-worker-1 has the output of the failed rank.
		first, second := "0", "1"
		if torch == "torch1" {
			first, second = "1", "0"
		}
		pods := map[string]*corev1.Pod{
			"job-worker-0": pod("job-worker-0", exited(1), jobtest.Printed(captured(torch+"-exception-"+first))),
			"job-worker-1": pod("job-worker-1", exited(1), jobtest.Printed(captured(torch+"-exception-"+second))),
		}
		for _, p := range pods {
			p.Namespace = "ns"
		}
		return jobtest.NewJob(jobtest.Role("worker", 2)).BackoffLimit(0).
			Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)), pods
	}
	full := func(torch string) outputs {
		if torch == "torch1" {
			return outputs{
				"job-worker-0": captured("torch1-exception-1-full"),
				"job-worker-1": captured("torch1-exception-0-full"),
			}
		}
		return outputs{
			"job-worker-0": captured("torch2-exception-0-full"),
			"job-worker-1": captured("torch2-exception-1-full"),
		}
	}
	for name, tc := range map[string]struct {
		torch   string
		outputs Outputs
		reads   bool
		want    string
	}{
		"the output of torch 1.13 shows the failed replica, but not its rank": {
			torch: "torch1", outputs: full("torch1"), reads: true, want: "job-worker-1",
		},
		"the output of torch 2.9 shows the failed replica and its rank": {
			torch: "torch2", outputs: full("torch2"), reads: true, want: "job-worker-1, rank 3",
		},
		"one output is enough if the other cannot be read": {
			torch: "torch1", outputs: outputs{"job-worker-1": full("torch1")["job-worker-1"]},
			reads: true, want: "job-worker-1",
		},
		"the status is used if no output can be read":    {torch: "torch2", outputs: outputs{}, want: "job-worker-1, rank 3"},
		"the status is used without a reader of outputs": {torch: "torch2", want: "job-worker-1, rank 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, pods := failing(tc.torch)
			decide := func() plan.Decision {
				return plan.Decide(j.Job, view.Observation{Pods: pods, HasService: true}, now)
			}
			unclear := decide().Unclear
			diff(t, "containers whose output is needed",
				[]view.Container{{Pod: "job-worker-0", Name: mainContainer}, {Pod: "job-worker-1", Name: mainContainer}}, unclear)
			hasRead := readOutputs(t.Context(), tc.outputs, pods, unclear)
			diff(t, "whether any output was read", tc.reads, hasRead)
			d := decide()
			got := d.Status.Failures[0].Replica
			if rank := d.Status.Failures[0].Rank; rank != nil {
				got += fmt.Sprintf(", rank %d", *rank)
			}
			diff(t, "failure", tc.want, got)
			if n := len(d.Status.Failures[0].Message); n > 5<<10 {
				t.Errorf("the message has %d bytes, want at most %d", n, 5<<10)
			}
		})
	}
}
