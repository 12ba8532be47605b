package convert

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// petVariables matches the names of the variables in which Kubeflow passes flags to torchrun.
var petVariables = regexp.MustCompile(`\bPET_[A-Z_]+\b`)

// runsScript reports whether a container runs Python without -m, and does not mention a variable of torchrun.
func runsScript(main *corev1.Container) bool {
	for text := range textsOf(main) {
		if petVariables.MatchString(text.value) {
			return false
		}
	}
	words := slices.Concat(main.Command, main.Args)
	if len(main.Command) == 0 || !python.MatchString(path.Base(words[0])) {
		return false
	}
	return !slices.Contains(words, "-m")
}

// keepCommands keeps the commands of all replicas. If the program of a replica might read the variables that Kubeflow
// sets for torchrun, the replica gets these variables.
func (p *pyTorch) keepCommands(reasons []error) {
	setsVariables := false
	for i, r := range p.replicas {
		main := r.mainContainer()
		if runsScript(main) {
			continue
		}
		setsVariables = true
		const variables = "Kubeflow sets the variables PET_*, which torchrun reads. Here, env sets them."
		var text string
		switch {
		case errors.Is(reasons[i], errImage):
			text = variables + " If the command of the image does not run torchrun, remove them."
		case errors.Is(reasons[i], errOtherProgram):
			text = variables + " If the command does not run torchrun, remove them."
		default:
			text = "The command is kept, because " + reasons[i].Error() + ". " + variables +
				" Better use torchrunConfig, with the script and its arguments in args."
		}
		p.changed(r.mainField()+".command", "", fmt.Sprintf("%s.env[%d]", r.mainResult(), len(main.Env)), text)
		main.Env = withVariables(main.Env, p.petVariables())
	}
	if p.spec.ElasticPolicy != nil {
		text := "The job is not elastic, because elastic training needs torchrunConfig. It always has " +
			fmt.Sprintf("%d replicas.", p.total())
		if setsVariables {
			text += " The variables PET_* pass the settings to torchrun."
		}
		p.notMapped("spec.elasticPolicy", p.spec.ElasticPolicy, "spec", text)
	}
	p.remarkOnWorldSize(setsVariables)
}

// remarkOnWorldSize remarks on the number of processes of jobs whose commands are kept.
func (p *pyTorch) remarkOnWorldSize(setsVariables bool) {
	const field = "spec.nprocPerNode"
	procs, err := strconv.Atoi(p.spec.NprocPerNode)
	switch {
	case p.spec.NprocPerNode == "":
	case err == nil && procs > 1 && p.replicasOf("master") != nil:
		text := fmt.Sprintf("WORLD_SIZE is the number of replicas, %d. With Kubeflow, it is %d.",
			p.total(), int(p.total())*procs)
		if setsVariables {
			p.changed(field, procs, "spec", text)
		} else {
			p.notMapped(field, procs, "spec", "Only torchrun starts several processes in a replica. "+text)
		}
	case !setsVariables:
		p.notMapped(field, p.spec.NprocPerNode, "spec", "Only torchrun starts several processes in a replica.")
	}
}

// petVariables returns the variables that Kubeflow sets for torchrun. For the address, the port and the rank, the
// values are references to variables that the controller sets.
func (p *pyTorch) petVariables() []corev1.EnvVar {
	var env []corev1.EnvVar
	add := func(name, value string) { env = append(env, corev1.EnvVar{Name: name, Value: value}) }
	if p.replicasOf("master") != nil {
		add("PET_MASTER_PORT", "$(MASTER_PORT)")
		add("PET_MASTER_ADDR", "$(MASTER_ADDR)")
		add("PET_NODE_RANK", "$(RANK)")
	}
	policy := p.spec.ElasticPolicy
	procs := p.procs()
	add("PET_NPROC_PER_NODE", procs)
	if policy == nil {
		add("PET_NNODES", strconv.Itoa(int(p.total())))
		return env
	}
	least, most := p.limits()
	add("PET_RDZV_ENDPOINT", p.endpoint())
	add("PET_RDZV_BACKEND", cmp.Or(policy.RDZVBackend, c10d))
	add("PET_NNODES", fmt.Sprintf("%d:%d", least, most))
	if policy.MaxRestarts != nil {
		add("PET_MAX_RESTARTS", strconv.Itoa(int(*policy.MaxRestarts)))
	}
	if policy.RDZVID != "" {
		add("PET_RDZV_ID", policy.RDZVID)
	}
	if len(policy.RDZVConf) > 0 {
		add("PET_RDZV_CONF", policy.conf())
	}
	return env
}

// withVariables appends the variables that a container does not set yet.
func withVariables(env, more []corev1.EnvVar) []corev1.EnvVar {
	for _, variable := range more {
		if !slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == variable.Name }) {
			env = append(env, variable)
		}
	}
	return env
}

// c10d is the default rendezvous backend.
const c10d = "c10d"

// procs returns the number of processes in each replica, which the spec sets for torchrun. The result can also be a
// word, such as gpu. If the spec sets nothing, the result is "auto".
func (p *pyTorch) procs() string {
	if policy := p.spec.ElasticPolicy; policy != nil && policy.NProcPerNode != nil {
		return strconv.Itoa(int(*policy.NProcPerNode))
	}
	return cmp.Or(p.spec.NprocPerNode, "auto")
}

// limits returns the minimum and the maximum number of replicas of an elastic job.
func (p *pyTorch) limits() (least, most int32) {
	policy := p.spec.ElasticPolicy
	unset := p.total()
	if worker := p.replicasOf("worker"); worker != nil {
		unset = ptr.Deref(worker.Replicas, 1)
	}
	return ptr.Deref(policy.MinReplicas, ptr.Deref(policy.MaxReplicas, unset)),
		ptr.Deref(policy.MaxReplicas, ptr.Deref(policy.MinReplicas, unset))
}

// endpoint returns the endpoint of the rendezvous. If the spec sets no host, the endpoint is at the leader.
func (p *pyTorch) endpoint() string {
	policy := p.spec.ElasticPolicy
	if policy == nil || policy.RDZVHost == "" {
		return "$(MASTER_ADDR):$(MASTER_PORT)"
	}
	return fmt.Sprintf("%s:%d", policy.RDZVHost, ptr.Deref(policy.RDZVPort, kubeflowPort))
}

// conf returns the configuration of the rendezvous in the format of the flag --rdzv_conf.
func (e *elasticPolicy) conf() string {
	settings := make([]string, 0, len(e.RDZVConf))
	for _, setting := range e.RDZVConf {
		settings = append(settings, setting.Key+"="+setting.Value)
	}
	return strings.Join(settings, ",")
}
