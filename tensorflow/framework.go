// Package tensorflow adapts TensorFlow to the job controller. It sets the environment by which the replicas of a
// TensorFlowTrainingJob find each other.
package tensorflow

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// Environment variables of the main container.
const (
	envConfig     = "TF_CONFIG"
	envUnbuffered = "PYTHONUNBUFFERED"
)

const (
	// portName is the name of the container port that a replica listens on, as in the TFJob of Kubeflow.
	portName = "tfjob-port"
	// defaultPort is the port of a replica without hostNetwork whose main container has no port named portName.
	defaultPort = 2222
	// maxVariable is the maximum size of an environment variable in Linux, including its name: MAX_ARG_STRLEN.
	maxVariable = 128 << 10
)

// Controller describes the tensorflow-controller.
func Controller() framework.Controller[*v1beta1.TensorFlowTrainingJob] {
	return framework.Controller[*v1beta1.TensorFlowTrainingJob]{
		Name:        "tensorflow-controller",
		AddToScheme: v1beta1.AddToScheme,
		Framework:   tensorflow{},
	}
}

type tensorflow struct{}

var (
	_ framework.Framework[*v1beta1.TensorFlowTrainingJob] = tensorflow{}
	_ framework.TensorBoardJob                            = &v1beta1.TensorFlowTrainingJob{}
)

func (tensorflow) NewJob() *v1beta1.TensorFlowTrainingJob { return &v1beta1.TensorFlowTrainingJob{} }

func (tensorflow) MainContainers() []string { return []string{"tensorflow"} }

func (t tensorflow) Wire(
	_ *v1beta1.TensorFlowTrainingJob, peers framework.Peers, member framework.Member, template *corev1.PodTemplateSpec,
) error {
	main := framework.MainContainer(t.MainContainers(), template.Spec.Containers)
	env := []corev1.EnvVar{{Name: envUnbuffered, Value: "1"}}
	hasOwnConfig := slices.ContainsFunc(main.Env, func(e corev1.EnvVar) bool { return e.Name == envConfig })
	if len(peers.Members) > 1 { // a single replica needs no TF_CONFIG
		value, err := t.config(peers, member)
		if err != nil {
			return err
		}
		env = append(env, corev1.EnvVar{Name: envConfig, Value: value})
	}
	main.Env = framework.WithDefaults(main.Env, env)
	listens := len(peers.Members) > 1 && inCluster(v1beta1.ReplicaType(member.Role.Type))
	if listens && member.HasHostNetwork() && !hasOwnConfig {
		framework.DeclareHostPort(&template.Spec, main, t.port(peers, member))
	}
	return nil
}

// config returns the TF_CONFIG of a member. The format is described at
// https://www.tensorflow.org/guide/distributed_training#TF_CONFIG.
func (t tensorflow) config(peers framework.Peers, member framework.Member) (string, error) {
	type task struct {
		Type  string `json:"type"`
		Index int32  `json:"index"`
	}
	config := struct {
		Cluster map[string][]string `json:"cluster"`
		Task    task                `json:"task"`
	}{
		Cluster: map[string][]string{},
		Task:    task{Type: member.Role.Type, Index: member.Index},
	}
	for _, m := range peers.Members {
		if inCluster(v1beta1.ReplicaType(m.Role.Type)) {
			address := fmt.Sprintf("%s:%d", peers.FQDN(m), t.port(peers, m))
			config.Cluster[m.Role.Type] = append(config.Cluster[m.Role.Type], address)
		}
	}
	value, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	if size := len(envConfig) + len("=") + len(value) + 1; size > maxVariable {
		return "", fmt.Errorf(
			"%s for %s has %d bytes, but Linux allows at most %d bytes: use fewer replicas or a shorter name",
			envConfig, report.Count(len(peers.Members), "replica"), size, maxVariable)
	}
	return string(value), nil
}

// port returns the port that a member listens on.
func (t tensorflow) port(peers framework.Peers, member framework.Member) int32 {
	if main := framework.MainContainer(t.MainContainers(), member.Role.Template.Spec.Containers); main != nil {
		for _, p := range main.Ports {
			if p.Name == portName {
				return p.ContainerPort
			}
		}
	}
	if member.HasHostNetwork() {
		return peers.HostPort(member.Rank)
	}
	return defaultPort
}
