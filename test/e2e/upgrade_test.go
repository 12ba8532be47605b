package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/mod/sumdb/dirhash"

	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/upgrade"
)

// BeforeAll builds the previous version from its source. An upgrade or a rollback must not change existing jobs.
var _ = Describe("A version change", Label("upgrade"), Serial, Ordered, ContinueOnFailure, func() {
	var before, tree version
	all := []controller{"pytorch", "tensorflow", "deepspeed", "tensorboard", "scheduler"}

	BeforeAll(func(ctx context.Context) {
		cluster := localClusterOrSkip("images of the previous version can be loaded only into the local cluster")
		tree = version{name: "this version", source: root, manifests: "deploy"}
		before = buildBefore(ctx, cluster, all)
		DeferCleanup(func(ctx context.Context) { tree.install(ctx, all...) })
	}, NodeTimeout(30*time.Minute))

	DescribeTable("writes no objects of existing jobs, and these jobs continue,",
		func(ctx context.Context, versions func() (from, to version)) {
			from, to := versions()
			from.install(ctx, all...)
			paused := startWaiting(ctx)
			paused.waits(ctx)
			paused.pause(ctx, true)
			paused.eachIs(ctx, "Paused")
			running := startWaiting(ctx)
			running.waits(ctx)
			running.fails(ctx, "pytorch")
			running.haveFailed(ctx, map[string]int{"pytorch": 1, "tensorflow": 0, "deepspeed": 0})
			were := []string{running.objects(ctx), paused.objects(ctx)}

			to.install(ctx, all...)
			for _, c := range all {
				c.hasSeenAll(ctx)
			}
			are := []string{running.objects(ctx), paused.objects(ctx)}
			Expect(cmp.Diff(were, are)).To(BeEmpty(),
				"the new version writes no job, PodGroup, TensorBoard, pod, Service or Secret")

			running.fails(ctx, "pytorch")
			running.fails(ctx, "deepspeed")
			running.ends(ctx)
			running.haveFailed(ctx, map[string]int{"pytorch": 2, "tensorflow": 0, "deepspeed": 1})
			paused.pause(ctx, false)
			paused.waits(ctx)
			paused.ends(ctx)
		},
		Entry("in an upgrade from the previous version", func() (from, to version) { return before, tree },
			SpecTimeout(30*time.Minute)),
		Entry("in a rollback to the previous version", func() (from, to version) { return tree, before },
			SpecTimeout(30*time.Minute)),
	)

	DescribeTable("lets jobs run, wait in queues, restart and have TensorBoards",
		func(ctx context.Context, controllers func() version, hasPolicies bool) {
			controllers().install(ctx, all...)
			DeferCleanup(func(ctx context.Context) { tree.install(ctx, all...) })
			for _, v := range []version{before, tree} {
				_, err := kubectlWith(ctx, v.policies(ctx, all), "delete", "--ignore-not-found", "-f", "-")
				Expect(err).NotTo(HaveOccurred())
			}
			if hasPolicies {
				_, err := kubectlWith(ctx, tree.policies(ctx, all), "apply", "-f", "-")
				Expect(err).NotTo(HaveOccurred())
			}

			n := startWaiting(ctx)
			n.waits(ctx)
			n.fails(ctx, "pytorch")
			n.fails(ctx, "deepspeed")
			n.pause(ctx, true)
			n.eachIs(ctx, "Paused")
			n.pause(ctx, false)
			n.waits(ctx)
			n.ends(ctx)
			n.haveFailed(ctx, map[string]int{"pytorch": 1, "tensorflow": 0, "deepspeed": 1})
		},
		Entry("with the previous controllers and the policies of this version",
			func() version { return before }, true, SpecTimeout(30*time.Minute)),
		Entry("with the controllers of this version and no policy",
			func() version { return tree }, false, SpecTimeout(30*time.Minute)),
	)

	It("works as docs/operate/upgrading.md shows", func(ctx context.Context) {
		before.install(ctx, "pytorch")
		newNamespace(ctx).follow(ctx, "docs/operate/upgrading.md", "How to upgrade")
	})

	It("is rolled back as docs/operate/upgrading.md shows if leaders are held", Label("hold"), func(ctx context.Context) {
		tree.install(ctx, "pytorch")
		controllersNamespace.kubectl(ctx, "patch", "deployment/pytorch-controller", "--type=json", "-p", holdLeaders)
		controllersNamespace.kubectl(ctx, "rollout", "status", "deployment/pytorch-controller", timeout)
		Eventually(ctx, controllersNamespace.pods(ctx)).Should(HaveLen(1))
		n := startWaitingAlone(ctx)
		n.isHeld(ctx)

		n.follow(ctx, "docs/operate/upgrading.md", "How to roll back if leaders are held")
		before.install(ctx, "pytorch")
		n.kubectl(ctx, "delete", "ptjob", "alone")
		Eventually(ctx, n.names(ctx, "pods")).Should(BeEmpty(), "no pod stays Terminating")
	})

	It("can be made one controller at a time, with different versions of the module common", func(ctx context.Context) {
		if before.common() == tree.common() {
			Skip("the module common of " + before.name + " equals the one of this version, so the test would show nothing")
		}
		before.install(ctx, "pytorch", "tensorboard")
		tree.install(ctx, "tensorflow", "deepspeed", "scheduler")
		n := startWaiting(ctx)
		n.waits(ctx)
		n.fails(ctx, "pytorch")
		n.fails(ctx, "tensorflow")
		n.ends(ctx)
		n.haveFailed(ctx, map[string]int{"pytorch": 1, "tensorflow": 1, "deepspeed": 0})
	})
})

// version is a version of the controllers that can be installed.
type version struct {
	name string
	// source is the root of the source tree.
	source string
	// manifests is the path of the folder that has a kustomization for each controller. A relative path begins at the
	// root of the repository.
	manifests string
}

// buildBefore builds the controllers of the previous version with the module common of that version. It loads the
// images, which have a separate tag, into the node.
func buildBefore(ctx context.Context, cluster *localcluster.Cluster, controllers []controller) version {
	GinkgoHelper()
	const tag = "upgrades-from"
	source := GinkgoT().TempDir()
	name, err := upgrade.WritePrevious(ctx, root, source)
	if errors.Is(err, upgrade.ErrSkipped) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	v := version{name: name, source: source, manifests: filepath.Join(source, "deploy-"+tag)}
	for _, c := range controllers {
		image := "tensorstack/" + c.name()
		loadBuilt(ctx, cluster, source, "./"+string(c)+"/cmd/"+c.name(), image+":"+tag)
		folder := filepath.Join(v.manifests, c.base())
		Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
		base, err := filepath.Rel(folder, filepath.Join(source, "deploy", c.base()))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil,
			"resources: [%s]\nimages: [{name: %s, newTag: %s}]\n", base, image, tag), 0o600)).To(Succeed())
	}
	return v
}

// install installs controllers of the version as a user would. It replaces other versions.
func (v version) install(ctx context.Context, controllers ...controller) {
	GinkgoHelper()
	for _, c := range controllers {
		By(fmt.Sprintf("installing %s of %s", c.name(), v.name))
		_, err := kubectl(ctx, "apply", "-k", filepath.Join(v.manifests, c.base()))
		Expect(err).NotTo(HaveOccurred())
	}
	for _, c := range controllers {
		n := c.namespace()
		n.kubectl(ctx, "rollout", "status", "deployment/"+c.name(), timeout)
		Eventually(ctx, n.pods(ctx)).Should(HaveLen(1), "the pod of the former version is gone")
	}
}

// policies returns the manifests of the admission policies of controllers, and of their bindings.
func (v version) policies(ctx context.Context, controllers []controller) string {
	GinkgoHelper()
	var policies []string
	for _, c := range controllers {
		manifests, err := kubectl(ctx, "kustomize", filepath.Join(v.manifests, c.base()))
		Expect(err).NotTo(HaveOccurred())
		for object := range strings.SplitSeq(manifests, "\n---\n") {
			if isPolicy.MatchString(object) {
				policies = append(policies, object)
			}
		}
	}
	Expect(policies).NotTo(BeEmpty())
	return strings.Join(policies, "\n---\n")
}

// isPolicy matches the manifest of an admission policy or of its binding.
var isPolicy = regexp.MustCompile(`(?m)^kind: (?:Validating|Mutating)AdmissionPolicy(?:Binding)?$`)

// common returns the hash of the module common, as the checksum database computes it.
func (v version) common() string {
	GinkgoHelper()
	hash, err := dirhash.HashDir(filepath.Join(v.source, "common"), "common", dirhash.Hash1)
	Expect(err).NotTo(HaveOccurred())
	return hash
}

// controller is the name of a controller's module.
type controller string

func (c controller) name() string { return string(c) + "-controller" }

func (c controller) namespace() namespace { return namespace("t9k-" + c) }

// base returns the folder in deploy/ with the manifests of the controller.
func (c controller) base() string {
	if c == "scheduler" {
		return "scheduler/native"
	}
	return string(c)
}

// kind returns the kind of the objects that the controller reconciles.
func (c controller) kind() string {
	return map[controller]string{
		"pytorch": "ptjob", "tensorflow": "tfjob", "deepspeed": "dsjob", "tensorboard": "tb",
		"scheduler": "queues.scheduler.tensorstack.dev",
	}[c]
}

var (
	reconciled = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{.*\} (\d+)$`)
	unfinished = regexp.MustCompile(`(?m)^(?:workqueue_depth|controller_runtime_active_workers)\{.*\} (\d+)$`)
)

// hasSeenAll waits until the controller holds the Lease, has an empty queue, and has reconciled at least as many
// times as there are objects of its kind.
func (c controller) hasSeenAll(ctx context.Context) {
	GinkgoHelper()
	objects, err := kubectl(ctx, "get", c.kind(), "--all-namespaces", "-o", "name")
	Expect(err).NotTo(HaveOccurred())
	n := c.namespace()
	holder := n.output(ctx, "get", "lease", c.name(), "-o", "jsonpath={.spec.holderIdentity}")
	var pod string
	Eventually(ctx, func(g Gomega) { // the pod of the earlier version might still exist
		var err error
		pod, err = n.output(ctx, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(holder()).To(HavePrefix(pod + "_"))
	}).Should(Succeed())
	Eventually(ctx, func(g Gomega) {
		metrics, err := kubectl(ctx, "get", "--raw", "/api/v1/namespaces/"+string(n)+"/pods/"+pod+":8080/proxy/metrics")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sum(metrics, reconciled)).To(BeNumerically(">=", len(strings.Fields(objects))))
		g.Expect(sum(metrics, unfinished)).To(BeZero())
	}).Should(Succeed())
}

// sum returns the sum of the samples that match.
func sum(metrics string, samples *regexp.Regexp) int {
	total := 0
	for _, sample := range samples.FindAllStringSubmatch(metrics, -1) {
		value, _ := strconv.Atoi(sample[1])
		total += value
	}
	return total
}

// jobKinds are the kinds of jobs.
const jobKinds = "ptjob,tfjob,dsjob"

// startWaiting creates a job of each kind in a new namespace. Each replica runs until a test creates the file
// /tmp/enough or /tmp/broken in its container. One job is a gang in a queue and has a TensorBoard.
func startWaiting(ctx context.Context) namespace {
	GinkgoHelper()
	n := newNamespace(ctx)
	n.volume(ctx, "logs")
	content, err := os.ReadFile("testdata/waiting.yaml")
	Expect(err).NotTo(HaveOccurred())
	n.kubectlWith(ctx, strings.ReplaceAll(string(content), "QUEUE", string(n)), "apply", "-f", "-")
	n.deleteAfterwards("queue.scheduler.tensorstack.dev", string(n))
	return n
}

// waits returns when all replicas of the jobs run and no more changes of the status are due.
func (n namespace) waits(ctx context.Context) {
	GinkgoHelper()
	n.eachIs(ctx, "Running", "Running", "Running")
	n.kubectl(ctx, "wait", "--for=jsonpath={.status.tensorboard.ready}=true", "ptjob/pytorch", timeout)
	n.kubectl(ctx, "wait", "--for=jsonpath={.status.running}=2", "podgroup.scheduler.tensorstack.dev/pytorch", timeout)
}

// eachIs waits until each job has the phase, and the containers of its replicas have the states.
func (n namespace) eachIs(ctx context.Context, phase string, states ...string) {
	GinkgoHelper()
	for _, job := range now(n.names(ctx, jobKinds)) {
		Eventually(ctx, n.output(ctx, "get", job, "-o",
			"jsonpath={.status.phase} {.status.tasks[*].replicas[*].containers[*].state}")).
			Should(WithTransform(strings.Fields, Equal(append([]string{phase}, states...))), job)
	}
}

// pause pauses the jobs, or resumes them.
func (n namespace) pause(ctx context.Context, paused bool) {
	GinkgoHelper()
	for _, job := range now(n.names(ctx, jobKinds)) {
		n.kubectl(ctx, "patch", job, "--type=merge", "-p",
			fmt.Sprintf(`{"spec": {"runMode": {"pause": {"enabled": %t}}}}`, paused))
	}
}

// fails makes the leader of a job fail, and waits until all replicas have restarted.
func (n namespace) fails(ctx context.Context, job string) {
	GinkgoHelper()
	leader := now(n.replicas(ctx))[job+"-worker-0"]
	n.kubectl(ctx, "exec", job+"-worker-0", "-c", "main", "--", "touch", "/tmp/broken")
	Eventually(ctx, n.pods(ctx)).ShouldNot(ContainElement(leader.uid))
	n.waits(ctx)
}

// haveFailed expects each job to have counted the given number of failures of its leader.
func (n namespace) haveFailed(ctx context.Context, times map[string]int) {
	GinkgoHelper()
	for _, job := range now(n.names(ctx, jobKinds)) {
		_, name, _ := strings.Cut(job, "/")
		Eventually(ctx, n.output(ctx, "get", job, "-o", "jsonpath={.status.backoffCount}")).
			Should(Equal(strconv.Itoa(times[name])), job)
		failure := HavePrefix(name + "-worker-0 Error 1 counted=true on ")
		Eventually(ctx, n.failures(ctx, job)).Should(HaveExactElements(slices.Repeat([]any{failure}, times[name])...), job)
	}
}

// ends makes all replicas succeed, and waits until the jobs have succeeded.
func (n namespace) ends(ctx context.Context) {
	GinkgoHelper()
	for name := range now(n.replicas(ctx)) {
		if strings.Contains(name, "-worker-") {
			n.kubectl(ctx, "exec", name, "-c", "main", "--", "touch", "/tmp/enough")
		}
	}
	for _, job := range now(n.names(ctx, jobKinds)) {
		n.kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Succeeded", job, timeout)
	}
}

// onlyInNewCRDs matches the fields that the API server returns only with the CRDs of this version. Some fields have
// default values, which the API server adds without storing them. The other fields are stored, but the previous CRDs
// do not have them.
var onlyInNewCRDs = regexp.MustCompile(`(?m)^ +(?:(?:metadata|resources): {}|(?:rank|scheduledTime): .*|` +
	`defaults:(?:\n +(?:badNodePolicy|progressPolicy|restartScope): .*)+)\n`)

// objects returns the stored YAML of the jobs and of the objects that they own, so that each write to one of them
// changes the result. Of a pod, the result has only some metadata, the spec and the IDs of the containers, because
// the kubelet can write the status at any time. A restarted container has another ID.
func (n namespace) objects(ctx context.Context) string {
	GinkgoHelper()
	stored := now(n.output(ctx, "get",
		jobKinds+",tb,podgroups.scheduler.tensorstack.dev,podgroups.scheduling.k8s.io,services,secrets",
		"--show-managed-fields", "-o", "yaml"))
	return onlyInNewCRDs.ReplaceAllString(stored, "") + "\n" +
		now(n.output(ctx, "get", "pods", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.labels} {.metadata.annotations}`+
				` {.metadata.ownerReferences} {.spec} {.status.containerStatuses[*].containerID}`+
				` {.status.initContainerStatuses[*].containerID}{"\n"}{end}`))
}

// localClusterOrSkip returns the local cluster. On any other cluster, it skips the test with the reason.
func localClusterOrSkip(reason string) *localcluster.Cluster {
	GinkgoHelper()
	paths, err := localcluster.DefaultPaths()
	Expect(err).NotTo(HaveOccurred())
	if os.Getenv("KUBECONFIG") != paths.Kubeconfig() {
		Skip(reason)
	}
	repo, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())
	return localcluster.New(repo, localcluster.DefaultKubernetes, paths, localcluster.NewProgress(GinkgoWriter))
}

// loadBuilt builds a program of a source tree, and loads an image with the program into the node. The last part of
// the image name must be the name of the program.
func loadBuilt(ctx context.Context, cluster *localcluster.Cluster, source, program, image string) {
	GinkgoHelper()
	folder, packed := GinkgoT().TempDir(), GinkgoT().TempDir()
	archive := filepath.Join(packed, "image.tar")
	for _, build := range []struct {
		folder, environment string
		args                []string
	}{
		{
			source, "CGO_ENABLED=0",
			[]string{"build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(folder, filepath.Base(program)), program},
		},
		{filepath.Join(root, "hack/tools"), "GOWORK=off", []string{
			"run", "./image", "-name", image, "-folders", "linux/" + runtime.GOARCH + "=" + folder,
			"-layout", filepath.Join(packed, "layout"), "-archive", archive,
		}},
	} {
		command := exec.CommandContext(ctx, "go", build.args...)
		command.Dir = build.folder
		command.Env = append(os.Environ(), build.environment)
		output, err := command.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", output)
	}
	Expect(cluster.LoadImages(ctx, archive)).To(Succeed())
}
