package framework

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/progress"
)

// FirstProcess is where the process of rank 0 can run. It depends on how the framework assigns ranks.
type FirstProcess string

const (
	// FirstProcessOfLeader means that the leader runs the process of rank 0.
	FirstProcessOfLeader FirstProcess = "Leader"
	// FirstProcessByName means that the process of rank 0 runs in the leader, or in a member whose domain name precedes
	// the leader's in the alphabet. torchrun sorts its agents by their domain names.
	FirstProcessByName FirstProcess = "Name"
	// FirstProcessAnywhere means that every member can run the process of rank 0.
	FirstProcessAnywhere FirstProcess = "Anywhere"
)

// MayReport reports whether a member can report the progress of the training: the member can run the process of rank
// 0, and has a port for reports. Of the members with hostNetwork, only the leader has such a port.
func (s JobSpec) MayReport(peers Peers, member Member) bool {
	return s.MayRunFirst(peers, member) && (member.Rank == 0 || !member.HasHostNetwork())
}

// MayRunFirst reports whether the training reports its progress, and the member can run the process of rank 0.
func (s JobSpec) MayRunFirst(peers Peers, member Member) bool {
	switch {
	case !s.ReportsProgress:
		return false
	case s.FirstProcess == FirstProcessAnywhere || member.Rank == 0:
		return true
	default:
		return s.FirstProcess == FirstProcessByName && peers.FQDN(member) < peers.FQDN(peers.Leader())
	}
}

// HasReporters reports whether a replica of the role might report the progress of the training. See MayReport.
func (s JobSpec) HasReporters(role Role) bool {
	i := slices.IndexFunc(s.Roles, func(r Role) bool { return r.Replicas > 0 })
	if i < 0 || !s.ReportsProgress {
		return false
	}
	// The first replica of a role has the name that comes first in alphabetical order.
	leader, first := MemberName("", s.Roles[i].Type, 0)+".", MemberName("", role.Type, 0)+"."
	return leader == first || !role.Template.Spec.HostNetwork &&
		(s.FirstProcess == FirstProcessAnywhere || s.FirstProcess == FirstProcessByName && first < leader)
}

// Names, paths and the port in the pod of a member that can report progress.
const (
	// ProgressContainer is the name of the sidecar that receives reports.
	ProgressContainer = "progress"
	progressVolume    = "t9k-progress"
	tokenVolume       = "t9k-progress-token" //nolint:gosec // the name of a volume
	progressFolder    = "/t9k/progress"
	progressReports   = progressFolder + "/reports"
	tokenFolder       = "/t9k/progress-token" //nolint:gosec // the path of a folder
	progressToken     = tokenFolder + "/token"
	// ProgressPort is the port of the sidecar in pods that have their own network. It must not be a port that programs
	// commonly use.
	ProgressPort = 29499
)

// noProxy is the variable with the addresses that programs reach without a proxy. Programs accept its name in lower
// case too.
const noProxy = "NO_PROXY"

// progressPort returns the port on which the sidecar of a member receives reports.
func (p Peers) progressPort(member Member) int32 {
	if member.HasHostNetwork() {
		return p.HostPort(MaxHostPorts - 1)
	}
	return ProgressPort
}

// AddProgress adds the sidecar that receives the reports of the training to the template of a member. The sidecar and
// the main container share a volume with a file, to which the training can append reports. A second volume has the
// token with which the training can send reports over HTTP. The kubelet writes the token to this volume from an
// annotation of the pod. An error describes a problem of the template.
func (p Peers) AddProgress(member Member, template *corev1.PodTemplateSpec, main *corev1.Container) error {
	spec := &template.Spec
	volumes := []corev1.Volume{
		{Name: progressVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: tokenVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{
				Path: "token",
				FieldRef: &corev1.ObjectFieldSelector{
					FieldPath: "metadata.annotations['" + batchv1beta1.AnnotationProgressToken + "']",
				},
			}},
		}}},
	}
	mounts := []corev1.VolumeMount{
		{Name: progressVolume, MountPath: progressFolder},
		{Name: tokenVolume, MountPath: tokenFolder, ReadOnly: true},
	}
	if err := Mount(member, spec, main, volumes, mounts...); err != nil {
		return err
	}
	port := p.progressPort(member)
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	main.Env = exemptFromProxy(main.EnvFrom, WithDefaults(main.Env, []corev1.EnvVar{
		{Name: progress.EnvURL, Value: address},
		{Name: progress.EnvToken, Value: progressToken},
		{Name: progress.EnvFile, Value: progressReports},
	}))
	if member.HasHostNetwork() {
		DeclareHostPort(spec, main, port)
	}
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[batchv1beta1.AnnotationProgressPort] = strconv.Itoa(int(port))
	args := []string{
		"receive-progress", fmt.Sprintf("--port=%d", port), "--token-file=" + progressToken, "--reports=" + progressReports,
	}
	return p.addSidecar(member, spec, *main, ProgressContainer, args, mounts...)
}

// exemptFromProxy exempts the loopback address from the proxy of a container. It extends the lists of exempt
// addresses in env. If env has no such list, exemptFromProxy adds one only if env sets a proxy and envFrom is empty.
// In all other cases, the new list might replace one in the image, or in a ConfigMap or Secret of envFrom.
func exemptFromProxy(from []corev1.EnvFromSource, env []corev1.EnvVar) []corev1.EnvVar {
	const loopback = "127.0.0.1"
	exempted, hasProxy := slices.Clone(env), false
	hasList := false
	for i, v := range exempted {
		switch strings.ToUpper(v.Name) {
		case "HTTP_PROXY", "ALL_PROXY":
			hasProxy = true
		case noProxy:
			hasList = true
			if v.ValueFrom == nil && v.Value != "*" { // * must stay alone: many programs ignore it within a list
				exempted[i].Value = strings.TrimPrefix(v.Value+","+loopback, ",")
			}
		}
	}
	if hasProxy && !hasList && len(from) == 0 {
		exempted = append(exempted, corev1.EnvVar{Name: noProxy, Value: loopback})
	}
	return exempted
}
