package policy

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestCleansUp(t *testing.T) {
	t.Parallel()
	pods := map[string]struct {
		pod *corev1.Pod
		// ended reports whether no container of the pod runs any more.
		ended bool
	}{
		"is pending": {pod: podIn(corev1.PodPending)},
		"runs":       {pod: podIn(corev1.PodRunning, runs("main"))},
		"is lost":    {pod: podIn(corev1.PodUnknown)},
		"succeeded":  {pod: podIn(corev1.PodSucceeded, ends("main", 0)), ended: true},
		"succeeded without container statuses": {
			pod: podIn(corev1.PodSucceeded), ended: true,
		},
		"failed before it had containers": {
			pod: podIn(corev1.PodFailed), ended: true,
		},
		"failed":                        {pod: podIn(corev1.PodFailed, ends("main", 1)), ended: true},
		"has a sidecar that still runs": {pod: podIn(corev1.PodRunning, ends("main", 0), runs("sidecar"))},
		"has ended but is still in phase Running": {
			pod: podIn(corev1.PodRunning, ends("main", 0), ends("sidecar", 0)), ended: true,
		},
	}
	policies := map[batchv1beta1.CleanUpPolicy]func(ended bool) bool{
		batchv1beta1.CleanUpPolicyAll:        func(bool) bool { return true },
		batchv1beta1.CleanUpPolicyUnfinished: func(ended bool) bool { return !ended },
		batchv1beta1.CleanUpPolicyNone:       func(bool) bool { return false },
		"":                                   func(ended bool) bool { return !ended },
	}
	for policy, deletes := range policies {
		for name, tc := range pods {
			t.Run("policy "+strconv.Quote(string(policy))+" with a pod that "+name, func(t *testing.T) {
				t.Parallel()
				if want, got := deletes(tc.ended), CleansUp(batchv1beta1.RunPolicy{CleanUpPolicy: policy}, tc.pod); got != want {
					t.Errorf("CleansUp is %t, want %t", got, want)
				}
			})
		}
	}
}

func TestMayRun(t *testing.T) {
	t.Parallel()
	withInit := func(pod *corev1.Pod, statuses ...corev1.ContainerStatus) *corev1.Pod {
		pod.Status.InitContainerStatuses = statuses
		return pod
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a pod that has not started may start":         {podIn(corev1.PodPending), true},
		"a pod that runs may run":                      {podIn(corev1.PodRunning, runs("main")), true},
		"a pod whose containers have ended cannot run": {podIn(corev1.PodRunning, ends("main", 0)), false},
		"a sidecar among the init containers runs after the others": {
			withInit(podIn(corev1.PodRunning, ends("main", 0)), ends("prepare", 0), runs("sidecar")), true,
		},
		"an init container that has ended does not run": {
			withInit(podIn(corev1.PodRunning, ends("main", 0)), ends("prepare", 0)), false,
		},
		"a pod that succeeded cannot run, even if its sidecar is reported as running": {
			withInit(podIn(corev1.PodSucceeded, ends("main", 0)), runs("sidecar")), false,
		},
		"a pod that failed cannot run, even if its sidecar is reported as running": {
			withInit(podIn(corev1.PodFailed, ends("main", 1)), runs("sidecar")), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := MayRun(tc.pod); got != tc.want {
				t.Errorf("MayRun is %t, want %t", got, tc.want)
			}
		})
	}
}
