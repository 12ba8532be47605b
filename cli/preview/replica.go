package preview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/shell"
)

// line is a line of the summary of a pod.
type line struct {
	// added reports whether the controller has added or changed the part of the pod that the line shows.
	added bool
	label string
	text  string
}

// lines returns the summary of the pod of a replica.
func (r Replica) lines(s style) []line {
	before, main := *r.own, *r.main
	lines := []line{{label: "Image", text: shown(main.Image)}}
	lines = append(lines, s.commandLines(before, main)...)
	lines = append(lines, s.environmentLines(before, main)...)
	lines = append(lines,
		resourceLine("Requests", before.Resources.Requests, main.Resources.Requests),
		resourceLine("Limits", before.Resources.Limits, main.Resources.Limits))
	for _, port := range main.Ports {
		if port.HostPort != 0 {
			lines = append(lines, line{
				added: !slices.Contains(before.Ports, port), label: "Host port", text: fmt.Sprint(port.HostPort),
			})
		}
	}
	lines = append(lines, r.mountLines(before, main)...)
	lines = append(lines, r.otherContainers(s)...)
	lines = append(lines, r.schedulingLines()...)
	return slices.DeleteFunc(lines, func(l line) bool { return l.text == "" })
}

// commandLines returns the command and the arguments of a container.
func (s style) commandLines(before, after corev1.Container) []line {
	command := line{
		added: !slices.Equal(before.Command, after.Command), label: "Command", text: s.shellLine(after.Command),
	}
	if len(after.Command) == 0 {
		command.text = "(the entrypoint of the image)"
	}
	return []line{
		command, {added: !slices.Equal(before.Args, after.Args), label: "Args", text: s.shellLine(after.Args)},
	}
}

// environmentLines returns the environment of a container. The variables that the controller has added or changed
// come first.
func (s style) environmentLines(before, after corev1.Container) []line {
	var added, others []line
	for _, variable := range after.Env {
		if slices.ContainsFunc(before.Env, func(v corev1.EnvVar) bool { return equality.Semantic.DeepEqual(v, variable) }) {
			others = append(others, line{label: "Environment", text: s.variableText(variable)})
		} else {
			added = append(added, line{added: true, label: "Environment", text: s.variableText(variable)})
		}
	}
	for _, from := range after.EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			others = append(others, line{label: "Environment", text: "from configMap " + shown(from.ConfigMapRef.Name)})
		case from.SecretRef != nil:
			others = append(others, line{label: "Environment", text: "from secret " + shown(from.SecretRef.Name)})
		}
	}
	return append(added, others...)
}

// variableText returns an environment variable as text.
func (s style) variableText(variable corev1.EnvVar) string {
	name := shown(variable.Name)
	switch from := variable.ValueFrom; {
	case from == nil:
		return name + "=" + s.shortened(shell.Quote(shown(variable.Value)))
	case from.ConfigMapKeyRef != nil:
		return fmt.Sprintf("%s from key %s of configMap %s", name, shown(from.ConfigMapKeyRef.Key),
			shown(from.ConfigMapKeyRef.Name))
	case from.SecretKeyRef != nil:
		return fmt.Sprintf("%s from key %s of secret %s", name, shown(from.SecretKeyRef.Key),
			shown(from.SecretKeyRef.Name))
	case from.FieldRef != nil:
		return fmt.Sprintf("%s from field %s of the pod", name, shown(from.FieldRef.FieldPath))
	case from.ResourceFieldRef != nil:
		return fmt.Sprintf("%s from resource %s of the container", name, shown(from.ResourceFieldRef.Resource))
	default:
		return name + " from a file"
	}
}

// resourceLine returns the line about a list of resources. Its text is empty if the list is empty.
func resourceLine(label string, before, after corev1.ResourceList) line {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		quantity := after[name]
		texts = append(texts, fmt.Sprintf("%s %s", shown(string(name)), quantity.String()))
	}
	return line{
		added: !equality.Semantic.DeepEqual(before, after), label: label, text: strings.Join(texts, ", "),
	}
}

// mountLines returns the volumes of a container.
func (r Replica) mountLines(before, after corev1.Container) []line {
	var lines []line
	for _, mount := range after.VolumeMounts {
		text := fmt.Sprintf("%s from %s", shown(mount.MountPath), r.sourceOf(mount.Name))
		if mount.SubPath != "" {
			text = fmt.Sprintf("%s from %s of %s", shown(mount.MountPath), shown(mount.SubPath), r.sourceOf(mount.Name))
		}
		isOwn := slices.ContainsFunc(before.VolumeMounts, func(m corev1.VolumeMount) bool {
			return equality.Semantic.DeepEqual(m, mount)
		})
		lines = append(lines, line{added: !isOwn, label: "Volumes", text: text})
	}
	return lines
}

// sourceOf returns the source of a volume, such as "configMap digits".
func (r Replica) sourceOf(volume string) string {
	i := slices.IndexFunc(r.Pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	if i < 0 {
		return "volume " + shown(volume)
	}
	content, err := json.Marshal(r.Pod.Spec.Volumes[i].VolumeSource)
	var sources map[string]map[string]any
	if err != nil || json.Unmarshal(content, &sources) != nil {
		return "volume " + shown(volume)
	}
	for kind, source := range sources {
		for _, field := range []string{"name", "claimName", "secretName", "path", "driver", "reference"} {
			if name, ok := source[field].(string); ok {
				return kind + " " + shown(name)
			}
		}
		return kind
	}
	return "volume " + shown(volume)
}

// otherContainers returns the init containers and the containers other than the main one.
func (r Replica) otherContainers(s style) []line {
	own := map[string]bool{}
	for _, c := range slices.Concat(r.Template.Spec.InitContainers, r.Template.Spec.Containers) {
		own[c.Name] = true
	}
	var lines []line
	for _, c := range r.Pod.Spec.InitContainers {
		label := "Init"
		if jobs.IsSidecar(r.Pod, c.Name) {
			label = "Sidecar"
		}
		lines = append(lines, s.containerLine(label, c, !own[c.Name]))
	}
	for _, c := range r.Pod.Spec.Containers {
		if c.Name != r.main.Name {
			lines = append(lines, s.containerLine("Container", c, !own[c.Name]))
		}
	}
	return lines
}

// containerLine returns the image and the command line of a container.
func (s style) containerLine(label string, c corev1.Container, added bool) line {
	text := fmt.Sprintf("%s, image %s", shown(c.Name), shown(c.Image))
	if words := s.shellLine(slices.Concat(c.Command, c.Args)); words != "" {
		text += "\n" + words
	}
	return line{added: added, label: label, text: text}
}

// schedulingLines returns the lines with the scheduler, the scheduling gates, the node selector and the finalizers of
// the pod.
func (r Replica) schedulingLines() []line {
	after, before := r.Pod.Spec, r.Template.Spec
	lines := []line{{
		added: after.SchedulerName != before.SchedulerName, label: "Scheduler", text: shown(after.SchedulerName),
	}}
	for _, gate := range after.SchedulingGates {
		lines = append(lines, line{
			added: !slices.Contains(before.SchedulingGates, gate), label: "Gate", text: shown(gate.Name),
		})
	}
	for _, key := range slices.Sorted(maps.Keys(after.NodeSelector)) {
		_, isOwn := before.NodeSelector[key]
		lines = append(lines, line{
			added: !isOwn, label: "Nodes", text: shown(key) + "=" + shown(after.NodeSelector[key]),
		})
	}
	for _, finalizer := range r.Pod.Finalizers {
		lines = append(lines, line{added: true, label: "Finalizer", text: shown(finalizer)})
	}
	return lines
}

// isLike reports whether two replicas have the same type and the same summary. Numbers in the summaries, such as
// indices and ports, can differ by the difference of the ranks. The command line of a replica can wait for the host
// names of all other replicas, but not for its own. So isLike ignores the host names of both replicas in the command
// lines.
func (r Replica) isLike(other Replica) bool {
	a, b := r.lines(style{without: other.Pod.Name}), other.lines(style{without: r.Pod.Name})
	if r.Pod.Labels[batchv1beta1.LabelReplicaType] != other.Pod.Labels[batchv1beta1.LabelReplicaType] || len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].added != b[i].added || a[i].label != b[i].label || !countsUp(a[i].text, b[i].text, other.Rank-r.Rank) {
			return false
		}
	}
	return true
}
