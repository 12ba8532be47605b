package screen

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// devices maps the names of resources, such as nvidia.com/gpu, to numbers of devices.
type devices map[corev1.ResourceName]resource.Quantity

// String returns the devices as text, such as "16 nvidia.com/gpu".
func (d devices) String() string {
	texts := make([]string, 0, len(d))
	for _, name := range slices.Sorted(maps.Keys(d)) {
		quantity := d[name]
		texts = append(texts, quantity.String()+" "+printable.Line(string(name)))
	}
	return strings.Join(texts, ", ")
}

// add adds to d the devices that the given number of pods of a template need.
func (d devices) add(template *corev1.PodTemplateSpec, pods int) {
	for _, c := range template.Spec.Containers {
		for name, quantity := range c.Resources.Limits {
			if framework.IsDevice(name) && pods > 0 && !quantity.IsZero() {
				quantity.Mul(int64(pods))
				sum := d[name]
				sum.Add(quantity)
				d[name] = sum
			}
		}
	}
}

// devices returns the devices that all replicas of the job need, and the devices that its replicas hold on their
// nodes.
func (s Snapshot) devices(replicas []replica) (needed, held devices) {
	needed, held = devices{}, devices{}
	for _, role := range s.Job.Spec().Roles {
		needed.add(role.Template, int(role.Replicas))
		pods := 0
		for _, r := range replicas {
			if r.Type == role.Type && holds(r) {
				pods++
			}
		}
		held.add(role.Template, pods)
	}
	return needed, held
}

// idleSince returns the time at which the devices of a job that does not run became idle. This is the later of two
// times: when a kubelet accepted the first pod, and when the status of the condition Running changed last. idleSince
// returns false if the job runs, if it is decided how the job ends, or if no kubelet is known to have accepted a pod.
func (s Snapshot) idleSince() (time.Time, bool) {
	if s.isRunning() || s.status().Decided() {
		return time.Time{}, false
	}
	var first time.Time
	for _, pod := range s.Pods {
		if pod.Accepted != nil && (first.IsZero() || pod.Accepted.Time.Before(first)) {
			first = pod.Accepted.Time
		}
	}
	if first.IsZero() {
		return time.Time{}, false
	}
	if since := s.condition(batchv1beta1.ConditionRunning).LastTransitionTime.Time; since.After(first) {
		first = since
	}
	return first, true
}

// deviceSummary returns the devices that the job holds, and how long they have been idle or without progress.
func (s Snapshot) deviceSummary(replicas []replica, now time.Time) string {
	needed, held := s.devices(replicas)
	switch {
	case len(needed) == 0 || s.Deleted || s.status().Finished() && len(held) == 0:
		return ""
	case len(held) == 0:
		return quiet.Render(fmt.Sprintf("none held, needs %s", needed))
	case s.isStalled():
		since := s.condition(batchv1beta1.ConditionStalled).LastTransitionTime.Time
		if p := s.status().Progress; p != nil && p.LastReportTime != nil && p.LastReportTime.Time.Before(since) {
			since = p.LastReportTime.Time
		}
		return fmt.Sprintf("%s held, ", held) + waits.Render("without progress for "+ago(since, now))
	}
	if since, isIdle := s.idleSince(); isIdle {
		return fmt.Sprintf("%s held, ", held) + waits.Render("idle for "+ago(since, now))
	}
	return fmt.Sprintf("%s held", held)
}
