package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	commonv1 "github.com/kubeflow/common/pkg/apis/common/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// mpi is the conversion of an MPIJob.
type mpi struct {
	*conversion

	spec mpiJobSpec
	// isV1 is whether the job is of kubeflow.org/v1, which training-operator runs. mpi-operator runs all others.
	isV1             bool
	launcher, worker *replicas
	workers          int32
	config           *deepspeedv1beta1.Config
}

// convertMPIJob converts an MPIJob that trains with DeepSpeed into a DeepSpeedJob.
func convertMPIJob(c *conversion, from kubeflowJob[mpiJobSpec], options Options) ([]result, error) {
	list, err := replicasOf(from.Spec.MPIReplicaSpecs, "spec.mpiReplicaSpecs", from.Spec.MainContainer,
		[]role{{"Launcher", "launcher"}, {"Worker", "worker"}})
	if err != nil {
		return nil, err
	}
	if list[0].role != "launcher" {
		return nil, errors.New("spec.mpiReplicaSpecs has no Launcher")
	}
	m := &mpi{conversion: c, spec: from.Spec, isV1: from.APIVersion == kubeflowGroup+"/v1", launcher: list[0]}
	m.launcher.main = 0 // spec.mainContainer names a container of the workers
	m.setWorkers(list)
	if err := m.setConfig(options.DeepSpeed); err != nil {
		return nil, err
	}
	m.config.SlotsPerWorker = m.spec.SlotsPerWorker
	m.move("spec.slotsPerWorker", "spec.config.slotsPerWorker")
	job := &deepspeedv1beta1.DeepSpeedJob{
		TypeMeta:   typeOf(deepspeedv1beta1.Kind),
		ObjectMeta: m.metadataOf(from.Metadata, from.Status),
	}
	policy, limit := m.workerPolicy()
	common := m.policiesOf(m.policySpec(), job.Labels, restartsAfterFailure(policy), limit)
	m.prioritize(m.worker, common.priorityClass)
	m.remarkOnLauncher()
	m.removeCommand()
	hints := hint{
		pattern: regexp.MustCompile(`\b(OMPI_COMM_WORLD|PMIX?|MV2_COMM_WORLD)_[A-Z_]+\b`),
		text:    "There is no MPI. The processes have RANK, LOCAL_RANK and WORLD_SIZE.",
	}
	m.remarkOnTemplate(from.Metadata.Name, m.worker, hints)
	m.remarkOnTexts(m.config, "spec.config", append(hintsFor(from.Metadata.Name), hints),
		func(string) string { return m.commandField() })
	m.remarkOnOtherFields()
	job.Spec = deepspeedv1beta1.DeepSpeedJobSpec{
		Scheduler: common.scheduler,
		ManagedBy: common.managedBy,
		RunPolicy: common.run,
		RunMode:   common.mode,
		Config:    m.config,
		Worker:    deepspeedv1beta1.Worker{Replicas: &m.workers, Template: m.worker.Template, RestartPolicy: policy},
	}
	return []result{{c, job}}, nil
}

// setWorkers sets the workers of the result. A launcher that takes part in the training is one more worker.
func (m *mpi) setWorkers(list []*replicas) {
	const result = "spec.worker.replicas"
	if len(list) > 1 && ptr.Deref(list[1].Replicas, 0) > 0 {
		m.worker, m.workers = list[1], *list[1].Replicas
	} else {
		m.worker = &replicas{ReplicaSpec: *m.launcher.DeepCopy(), role: "worker", field: m.launcher.field}
		m.changed("spec.mpiReplicaSpecs.Worker", "no replicas", result,
			"The launcher trains alone, so there is one worker, with the template of the launcher.")
	}
	switch {
	case m.spec.RunLauncherAsWorker:
		m.workers++
		m.changed("spec.runLauncherAsWorker", true, result, "Worker 0 is both, so there is one worker more.")
	case m.workers == 0:
		m.workers = 1
	}
	m.worker.result = "spec.worker"
	m.move(m.worker.field, m.worker.result)
}

// hasOwnWorkers reports whether the workers have a template of their own, and not the template of the launcher.
func (m *mpi) hasOwnWorkers() bool { return m.worker.field != m.launcher.field }

// workerPolicy returns the restart policy of the workers, and the backoff limit that applies if the manifest sets
// none. The policy follows from the policy of the launcher, since worker 0 launches the training.
func (m *mpi) workerPolicy() (policy batchv1beta1.RestartPolicy, limit int32) {
	field, result := m.launcher.field+".restartPolicy", "spec.worker.restartPolicy"
	m.move(field, result)
	limit = noLimit
	if m.isV1 {
		policy = m.restartPolicy(m.launcher.RestartPolicy, field, result,
			batchv1beta1.RestartPolicyNever, batchv1beta1.RestartPolicyOnFailure)
	} else {
		// mpi-operator runs the launcher as a Job of batch/v1. After a failure, the Job creates a new pod even if the
		// restart policy is Never.
		limit = defaultJobLimit
		policy = batchv1beta1.RestartPolicyOnFailure
		if m.launcher.RestartPolicy == commonv1.RestartPolicyNever {
			m.changed(field, m.launcher.RestartPolicy, result,
				"mpi-operator runs the launcher as a Job, which retries it up to backoffLimit even with Never.")
		}
	}
	m.remarkOnRestarts(m.worker, policy)
	if own := m.worker.RestartPolicy; m.hasOwnWorkers() && own != "" && string(own) != string(policy) {
		m.notMapped(m.worker.field+".restartPolicy", m.worker.RestartPolicy, result,
			"The policy of the launcher applies, since worker 0 launches the training.")
	}
	return policy, limit
}

// defaultJobLimit is the default backoff limit of a Job of batch/v1.
const defaultJobLimit = 6

// policySpec returns the policies of the spec. If a job of kubeflow.org/v1 has no runPolicy.cleanPodPolicy,
// policySpec uses the cleanPodPolicy in the spec itself, as training-operator does.
func (m *mpi) policySpec() policySpec {
	policies := m.spec.policySpec
	if m.isV1 && policies.RunPolicy.CleanPodPolicy == nil && policies.CleanPodPolicy != nil {
		policies.RunPolicy.CleanPodPolicy = policies.CleanPodPolicy
		m.move("spec.cleanPodPolicy", cleanUpPolicyField)
	}
	return policies
}

// remarkOnLauncher remarks on the fields of the launcher that the workers do not have, or have with another value.
func (m *mpi) remarkOnLauncher() {
	if !m.hasOwnWorkers() {
		return
	}
	const text = "There is no launcher pod: worker 0 launches the training in its own pod."
	pod, workerPod := fieldsOf(m.launcher.Template), fieldsOf(m.worker.Template)
	spec, workerSpec := asMap(pod["spec"]), asMap(workerPod["spec"])
	main, workerMain := fieldsOf(m.launcher.mainContainer()), fieldsOf(m.worker.mainContainer())
	delete(pod, "spec")
	for _, name := range []string{"containers", "restartPolicy"} { // containers follow below; Kubeflow sets the policy
		delete(spec, name)
	}
	for _, name := range []string{"name", "command", "args", "env"} { // these have been converted
		delete(main, name)
	}
	differ := func(fields, others map[string]any, field string) {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if !reflect.DeepEqual(fields[name], others[name]) {
				m.notMapped(field+"."+name, fields[name], "spec.worker", text)
			}
		}
	}
	differ(asMap(pod["metadata"]), asMap(workerPod["metadata"]), m.launcher.field+".template.metadata")
	differ(spec, workerSpec, m.launcher.field+".template.spec")
	differ(main, workerMain, m.launcher.mainField())
	for i, container := range m.launcher.Template.Spec.Containers {
		if i != m.launcher.main {
			field := fmt.Sprintf("%s.template.spec.containers[%d]", m.launcher.field, i)
			m.notMapped(field, container.Name, "spec.worker", text)
		}
	}
	if launchers := ptr.Deref(m.launcher.Replicas, 1); launchers != 1 {
		m.notMapped(m.launcher.field+".replicas", launchers, "spec.worker", text)
	}
}

// fieldsOf returns the JSON fields of a value, without fields that are empty objects.
func fieldsOf(value any) map[string]any {
	content, err := json.Marshal(value)
	var fields map[string]any
	if err != nil || json.Unmarshal(content, &fields) != nil {
		return nil
	}
	maps.DeleteFunc(fields, func(_ string, field any) bool { return reflect.DeepEqual(field, map[string]any{}) })
	return fields
}

// asMap returns a value as a map, or nil if the value is no map.
func asMap(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

// removeCommand removes the command and the TCP probes of the workers. The command usually runs an ssh server, and
// the probes check this server. If the workers share the template of the launcher, their command is the command of
// the launcher, which the config of the job already has.
func (m *mpi) removeCommand() {
	main := m.worker.mainContainer()
	if words := slices.Concat(main.Command, main.Args); len(words) > 0 && m.hasOwnWorkers() {
		m.notMapped(m.worker.mainField()+".command", words, m.worker.mainResult(),
			"The containers of the workers run the agent of the job, which serves ssh.")
	}
	main.Command, main.Args = nil, nil
	for _, p := range []struct {
		name  string
		probe **corev1.Probe
	}{
		{"livenessProbe", &main.LivenessProbe},
		{"readinessProbe", &main.ReadinessProbe},
		{"startupProbe", &main.StartupProbe},
	} {
		if probe := *p.probe; probe != nil && probe.TCPSocket != nil {
			m.notMapped(m.worker.mainField()+"."+p.name, probe.TCPSocket, m.worker.mainResult(),
				"The ssh server of the image does not run.")
			*p.probe = nil
		}
	}
	if mainOf(m.worker.Template.Spec.Containers, "worker") != m.worker.main {
		m.changed(m.worker.mainField()+".name", main.Name, m.worker.mainResult(),
			"The main container is the one named worker, else the first one.")
	}
}

// remarkOnOtherFields remarks on the fields of the spec that have no counterpart.
func (m *mpi) remarkOnOtherFields() {
	const waits = "Worker 0 always waits until it reaches the other workers."
	m.notMappedIfSet("spec.mainContainer", m.spec.MainContainer, "spec.worker",
		"The main container is the one named worker, else the first one.")
	m.notMappedIfSet("spec.sshAuthMountPath", m.spec.SSHAuthMountPath, "spec", "The keys of the job are at /t9k/ssh.")
	m.notMappedIfSet("spec.launcherCreationPolicy", m.spec.LauncherCreationPolicy, "spec", waits)
	m.notMappedIfSet("spec.waitForWorkers", m.spec.WaitForWorkers, "spec", waits)
	m.notMappedIfSet("spec.mpiImplementation", m.spec.MPIImplementation, "spec", "DeepSpeedJobs do not use MPI.")
}
