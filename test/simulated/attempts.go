package simulated

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const retryTimeout = 30 * time.Second

// Retry makes the engine try several times to place the waiting pods of a group, and returns after these attempts.
// Pods that are bound in the meantime are not tried again. Retry returns an error if no pod waits at the start, or if
// the engine makes no attempt. The engine makes none if the group, its queue or some of its pods are missing, or if
// the pods do not even fit an empty node.
//
// A test that calls Retry can check that pods stay unbound, and does not have to wait for a fixed time.
func (c *ControlPlane) Retry(ctx context.Context, times int, namespace, group string) error {
	for i := range times {
		waiting, err := c.waiting(ctx, namespace, group)
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			if i > 0 {
				return nil
			}
			return fmt.Errorf("no pod of group %s/%s waits for a node", namespace, group)
		}
		if err := c.retry(ctx, waiting); err != nil {
			return fmt.Errorf("waiting for %s to try group %s/%s again: %w", c.Engine, namespace, group, err)
		}
	}
	return nil
}

// retry makes the engine try again to place the pods. It returns when each pod has been tried again, is bound, or is
// deleted, and returns an error if this takes longer than retryTimeout.
func (c *ControlPlane) retry(ctx context.Context, pods []corev1.Pod) error {
	before := make([]int, len(pods))
	for i := range pods {
		var err error
		if before[i], err = c.attempts.count(ctx, &pods[i]); err != nil {
			return err
		}
	}
	if err := c.nudge(ctx); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, pollInterval, retryTimeout, true, func(ctx context.Context) (bool, error) {
		for i := range pods {
			pod := &corev1.Pod{}
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(&pods[i]), pod)
			if client.IgnoreNotFound(err) != nil {
				return false, err
			}
			if err != nil || pod.UID != pods[i].UID || pod.Spec.NodeName != "" {
				continue
			}
			now, err := c.attempts.count(ctx, pod)
			if err != nil || now < before[i]+c.attempts.more {
				return false, err
			}
		}
		return true, nil
	})
}

// nudge makes kube-scheduler try to place waiting pods again. kube-scheduler does this only after a change that could
// make the pods schedulable. So nudge adds a thousandth of a CPU to the largest node.
func (c *ControlPlane) nudge(ctx context.Context) error {
	if c.Kind == Volcano {
		return nil // Volcano tries all waiting pods in each session
	}
	nodes := &corev1.NodeList{}
	if err := c.Client.List(ctx, nodes); err != nil || len(nodes.Items) == 0 {
		return err
	}
	node := slices.MaxFunc(nodes.Items,
		func(a, b corev1.Node) int { return a.Status.Allocatable.Cpu().Cmp(*b.Status.Allocatable.Cpu()) })
	base := node.DeepCopy()
	cpu := node.Status.Allocatable[corev1.ResourceCPU]
	cpu.Add(resource.MustParse("1m"))
	node.Status.Allocatable[corev1.ResourceCPU] = cpu
	return c.Client.Status().Patch(ctx, &node, client.MergeFrom(base))
}

// attempts counts the failed attempts of the engine to place a pod.
type attempts struct {
	count func(ctx context.Context, pod *corev1.Pod) (int, error)
	// more is the increase of the count that proves a new attempt, which has begun after the first call of count.
	// Volcano needs an increase by 2, because the first session to end can have begun before that call.
	more int
}

// logAttempts counts the attempts in the log of kube-scheduler. Metrics, events and conditions do not show that a pod
// failed again for the same reason.
func logAttempts(file string) attempts {
	return attempts{more: 1, count: func(_ context.Context, pod *corev1.Pod) (int, error) {
		log, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		count := 0
		name := fmt.Appendf(nil, ` pod="%s/%s"`, pod.Namespace, pod.Name)
		for line := range bytes.Lines(log) {
			// kube-scheduler logs the second message if it does not even try to place a pod, because too few pods of the group
			// are left.
			isAttempt := bytes.Contains(line, []byte(`] "Unable to schedule pod`)) ||
				bytes.Contains(line, []byte(`] "Error scheduling pod; retrying"`))
			if isAttempt && bytes.Contains(line, name) {
				count++
			}
		}
		return count, nil
	}}
}

// sessionAttempts counts Volcano's sessions in the metrics of Volcano. Volcano tries all waiting pods in each
// session. For a pod whose condition PodScheduled is not False, the count is 0. Volcano has not tried such a pod,
// because it has not seen the pod yet, or because the group or the queue of the pod is missing.
func sessionAttempts(metricsURL string) attempts {
	return attempts{more: 2, count: func(ctx context.Context, pod *corev1.Pod) (int, error) {
		tried := func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		}
		if !slices.ContainsFunc(pod.Status.Conditions, tried) {
			return 0, nil
		}
		return volcanoSessions(ctx, metricsURL)
	}}
}

var sessionCount = regexp.MustCompile(`(?m)^volcano_e2e_scheduling_latency_milliseconds_count (\d+)$`)

func volcanoSessions(ctx context.Context, metricsURL string) (int, error) {
	metrics, err := get(ctx, metricsURL, "")
	if err != nil {
		return 0, err
	}
	found := sessionCount.FindSubmatch(metrics)
	if found == nil {
		return 0, fmt.Errorf("%s does not have the number of sessions", metricsURL)
	}
	return strconv.Atoi(string(found[1]))
}
