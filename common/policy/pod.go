package policy

import (
	corev1 "k8s.io/api/core/v1"
)

// ConditionOf returns the condition of a pod that has a type. It returns an empty condition if there is none.
func ConditionOf(pod *corev1.Pod, conditionType corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return corev1.PodCondition{}
}

// ContainerStatus returns the status of the container that has a name, or nil. The result is part of statuses.
func ContainerStatus(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
