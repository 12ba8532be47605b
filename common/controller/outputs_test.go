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
)

// outputs are those of pods, by name.
type outputs map[string]string

func (o outputs) Output(_ context.Context, namespace, pod, container string) (string, error) {
	output, ok := o[pod]
	if !ok || namespace != "ns" || container != mainContainer {
		return "", errors.New("not found")
	}
	return output, nil
}

// What the kubelet keeps of torchrun's output does not tell which rank raised an exception first. All of it does.
func TestReadOutputs(t *testing.T) {
	t.Parallel()
	captured := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "launcher", "testdata", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	failing := func(torch string) (*jobtest.Builder, map[string]*corev1.Pod) {
		// Of these runs, the output of the ranks that lost their peers, and of the one that failed.
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
		"torch 1.13: the replica, and no rank": {
			torch: "torch1", outputs: full("torch1"), reads: true, want: "job-worker-1",
		},
		"torch 2.9: the replica and the rank": {
			torch: "torch2", outputs: full("torch2"), reads: true, want: "job-worker-1, rank 3",
		},
		"one output that cannot be read": {
			torch: "torch1", outputs: outputs{"job-worker-1": full("torch1")["job-worker-1"]},
			reads: true, want: "job-worker-1",
		},
		"no right to read: what the status says": {torch: "torch2", outputs: outputs{}, want: "job-worker-1, rank 3"},
		"nothing to read with":                   {torch: "torch2", want: "job-worker-1, rank 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, pods := failing(tc.torch)
			decide := func() plan.Decision {
				return plan.Decide(j.Job, plan.Observation{Pods: pods, HasService: true}, now)
			}
			unclear := decide().Unclear
			diff(t, "containers whose output may tell",
				[]plan.Container{{Pod: "job-worker-0", Name: mainContainer}, {Pod: "job-worker-1", Name: mainContainer}}, unclear)
			hasRead := readOutputs(t.Context(), tc.outputs, pods, unclear)
			diff(t, "whether one was read", tc.reads, hasRead)
			d := decide()
			got := d.Status.Failures[0].Replica
			if rank := d.Status.Failures[0].Rank; rank != nil {
				got += fmt.Sprintf(", rank %d", *rank)
			}
			diff(t, "failure", tc.want, got)
			if n := len(d.Status.Failures[0].Message); n > 5<<10 {
				t.Errorf("the message has %d bytes", n)
			}
		})
	}
}
