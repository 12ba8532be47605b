package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/test/localcluster"
)

// The manifests of Kueue's release run Kueue in a pod. They create the service account to which
// examples/install/kueue gives permissions. All specs use one namespace, which has the queues of docs/operate/kueue.md.
// The quota of these queues suffices for only one job of the specs at a time.
var _ = Describe("Kueue", Label("kueue-training"), Serial, Ordered, func() {
	var n namespace

	BeforeAll(func(ctx context.Context) {
		cluster := localClusterOrSkip("the test installs and removes Kueue, which others might use")
		DeferCleanup(restoreControllers)
		installKueue(ctx, cluster)
		DeferCleanup(func(ctx context.Context) {
			_, err := kubectl(ctx, "wait", "--for=delete", "namespace/"+string(n), timeout)
			Expect(err).NotTo(HaveOccurred())
		})
		n = newNamespace(ctx)
	}, NodeTimeout(30*time.Minute))

	It("admits jobs that train one after the other, as docs/operate/kueue.md shows", func(ctx context.Context) {
		GinkgoT().Setenv("KUBE_EDITOR", editorOf(integrations()))
		n.follow(ctx, "docs/operate/kueue.md", "Install")
		isKueueReady(ctx)
		n.follow(ctx, "docs/operate/kueue.md", "Create a queue")
		n.follow(ctx, "docs/operate/kueue.md", "Run jobs")
		n.kubectl(ctx, "delete", "ptjob", "--all")
		Eventually(ctx, n.names(ctx, leftovers+","+workloads)).Should(BeEmpty(), "deleting the jobs deletes their Workloads")
	}, SpecTimeout(30*time.Minute))

	It("does not let a job create a pod before the job with the quota has ended", func(ctx context.Context) {
		n.waiting(ctx, "first", kueueLabel)
		n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/first", timeout)
		n.waiting(ctx, "second", kueueLabel)
		Eventually(ctx, n.output(ctx, "get", "ptjob", "second", "-o",
			"jsonpath={.status.phase} {.status.conditions[?(@.type=='Running')]['reason','message']}")).
			Should(And(HavePrefix("Pending Queued "), ContainSubstring("insufficient unused quota for memory")))
		Consistently(ctx, n.podsOf(ctx, "second")).WithTimeout(5 * time.Second).Should(BeEmpty())

		for _, pod := range now(n.podsOf(ctx, "first")) {
			n.kubectl(ctx, "exec", pod, "--", "touch", "/tmp/enough")
		}
		Eventually(ctx, n.podsOf(ctx, "second")).Should(HaveLen(2))
		for _, pod := range now(n.podsOf(ctx, "second")) {
			n.kubectl(ctx, "wait", "--for=condition=Ready", pod, timeout)
			n.kubectl(ctx, "exec", pod, "--", "touch", "/tmp/enough")
		}
		for _, job := range []string{"first", "second"} {
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/"+job, timeout)
			Eventually(ctx, n.output(ctx, "logs", job+"-worker-0")).Should(ContainSubstring("epoch 10  loss"))
			n.kubectl(ctx, "wait", "--for=condition=Finished", workloads+"/"+job, timeout)
		}
		finished := now(n.output(ctx, "get", workloads, "first", "-o",
			"jsonpath={.status.conditions[?(@.type=='Finished')].lastTransitionTime}"))
		created := now(n.output(ctx, "get", "pods", "-l", "batch.tensorstack.dev/job-name=second", "-o",
			"jsonpath={.items[*].metadata.creationTimestamp}"))
		for at := range strings.FieldsSeq(created) { // in this format, an earlier time is a smaller string
			Expect(at >= finished).To(BeTrue(), "a pod of second was created at %s, and first ended at %s", at, finished)
		}
		n.kubectl(ctx, "delete", "ptjob", "--all")
	}, SpecTimeout(30*time.Minute))

	It("needs the permission to read the jobs, and then lets jobs run", func(ctx context.Context) {
		_, err := kubectl(ctx, "delete", "clusterrolebinding", "tensorstack-pytorch-kueue-manager")
		Expect(err).NotTo(HaveOccurred())
		kueueNamespace.kubectl(ctx, "rollout", "restart", "deployment/kueue-controller-manager")
		isKueueReady(ctx)
		n.waiting(ctx, "queued", kueueLabel)
		n.waiting(ctx, "unqueued", "")
		Eventually(ctx, n.output(ctx, "get", workloads, "queued", "-o",
			"jsonpath={.status.conditions[?(@.type=='Admitted')].status}")).Should(Equal("True"))
		Eventually(ctx, kueueNamespace.output(ctx, "logs", "deployment/kueue-controller-manager")).Should(MatchRegexp(
			`serviceaccount:kueue-system:kueue-controller-manager\W+cannot list resource\W+pytorchtrainingjobs`))
		for _, job := range []string{"queued", "unqueued"} {
			Eventually(ctx, n.output(ctx, "get", "ptjob", job, "-o",
				"jsonpath={.status.conditions[?(@.type=='Initialized')]['reason','message']}")).
				Should(And(HavePrefix("CreateFailed creating pod "), ContainSubstring(`"mpod.kb.io"`)))
			Expect(now(n.podsOf(ctx, job))).To(BeEmpty())
		}

		_, err = kubectl(ctx, "apply", "-k", "examples/install/kueue")
		Expect(err).NotTo(HaveOccurred())
		for _, job := range []string{"queued", "unqueued"} {
			n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/"+job, timeout)
		}
		n.kubectl(ctx, "delete", "ptjob", "--all")
	}, SpecTimeout(30*time.Minute))

	It("lets the processes of a job save their work when it evicts the job", func(ctx context.Context) {
		waitLonger(2) // the job trains twice
		n := newNamespace(ctx)
		n.kubectlWith(ctx, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: queue}
spec: {clusterQueue: team}
`, "apply", "-f", "-")
		o := ddp
		o.labels = kueueLabel
		n.trainsOrderly(ctx, o, 0)
		setActive := func(active bool) {
			GinkgoHelper()
			n.kubectl(ctx, "patch", workloads, "digits-orderly", "--type=merge", "-p",
				fmt.Sprintf(`{"spec":{"active":%t}}`, active))
		}
		setActive(false)
		Eventually(ctx, n.podsOf(ctx, "digits-orderly")).Should(BeEmpty())
		setActive(true)
		n.continuesOrderly(ctx, o)
	}, SpecTimeout(30*time.Minute))

	It("admits the upload of a large folder if it also manages pods without a queue", func(ctx context.Context) {
		GinkgoT().Setenv("KUBE_EDITOR", "sed -i 's/#\\(manageJobsWithoutQueueName: true\\)/\\1/'")
		kueueNamespace.kubectl(ctx, "edit", "configmap", "kueue-manager-config")
		kueueNamespace.kubectl(ctx, "rollout", "restart", "deployment/kueue-controller-manager")
		isKueueReady(ctx)
		n.volume(ctx, "digits-code")
		out, errOut, err := n.train(ctx, "run", largeFolder(2<<20), "--name=digits", pytorchImage, small, "--nodes=2",
			"--local-queue=queue", "--", "train.py", "--epochs=2")
		Expect(err).NotTo(HaveOccurred(), "%s%s", out, errOut)
		Expect(out).To(ContainSubstring("epoch  2  loss"))
		n.kubectl(ctx, "delete", "ptjob", "--all")
	}, SpecTimeout(30*time.Minute))
})

const (
	kueueNamespace = namespace("kueue-system")
	// workloads is the full name of Kueue's resource, because Kubernetes also has a resource named workloads.
	workloads = "workloads.kueue.x-k8s.io"
)

// installKueue installs the release of Kueue whose image is built for the local cluster. Kueue is removed after the
// specs.
func installKueue(ctx context.Context, cluster *localcluster.Cluster) {
	GinkgoHelper()
	Expect(cluster.ComponentImages(ctx, "kueue")).To(Succeed())
	source, err := cluster.SourceDir(ctx, "kueue")
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	base, err := filepath.Rel(folder, filepath.Join(source, "config/default"))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, kueueKustomization, base,
		requiredBy("kueue", "sigs.k8s.io/kueue")), 0o600)).To(Succeed())
	DeferCleanup(removeKueue, folder)
	// A client-side apply would add an annotation that is too large for the API server, because the CRDs are large.
	_, err = kubectl(ctx, "apply", "--server-side", "-k", folder)
	Expect(err).NotTo(HaveOccurred())
	// Kueue creates its certificate in a Secret, and then waits for the file of the mounted Secret. The kubelet can take
	// more than a minute to write this file in a running pod, but writes it immediately in a new pod.
	Eventually(ctx, kueueNamespace.output(ctx, "get", "secret", "kueue-webhook-server-cert", "-o",
		`jsonpath={.data.tls\.crt}`)).ShouldNot(BeEmpty())
	kueueNamespace.kubectl(ctx, "rollout", "restart", "deployment/kueue-controller-manager")
	isKueueReady(ctx)
}

// kueueKustomization adapts the manifests of Kueue to the image that is built for the local cluster: its name, its
// tag and the path of the program.
const kueueKustomization = `resources: [%s]
images:
  - {name: us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue, newName: tensorstack/kueue, newTag: %s}
patches:
  - target: {kind: Deployment}
    patch: |-
      - {op: replace, path: /spec/template/spec/containers/0/command, value: [/kueue]}
      - {op: replace, path: /spec/template/spec/containers/0/imagePullPolicy, value: IfNotPresent}
`

// removeKueue deletes all objects of the folder's kustomization, and waits until they are gone. It also removes
// Kueue's finalizers from the queues and flavors, because the deleted Kueue cannot remove them.
func removeKueue(ctx context.Context, folder string) {
	GinkgoHelper()
	if CurrentSpecReport().Failed() {
		log, _ := kubectl(ctx, "-n", string(kueueNamespace), "logs", "deployment/kueue-controller-manager", "--tail=100")
		GinkgoWriter.Printf("the end of the log of Kueue:\n%s\n", log)
	}
	_, err := kubectl(ctx, "delete", "-k", folder, "--ignore-not-found", "--wait=false")
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(g Gomega) {
		for _, kind := range []string{"clusterqueues", "resourceflavors"} {
			objects, _ := kubectl(ctx, "get", kind+".kueue.x-k8s.io", "--ignore-not-found", "-o", "name")
			for object := range strings.FieldsSeq(objects) {
				_, _ = kubectl(ctx, "patch", object, "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
			}
		}
		remaining, err := kubectl(ctx, "get", "-k", folder, "--ignore-not-found", "-o", "name")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(remaining).To(BeEmpty())
	}).Should(Succeed())
}

// restoreControllers removes the permissions for Kueue. It also replaces the pods of the controllers, which would
// otherwise continue to watch Workloads.
func restoreControllers(ctx context.Context) {
	GinkgoHelper()
	all := []controller{"pytorch", "tensorflow", "deepspeed"}
	for _, c := range all {
		for _, args := range [][]string{
			{"delete", "-k", string(c) + "/config/kueue/objects", "--ignore-not-found"},
			{"apply", "-k", "deploy/" + c.base()},
			{"-n", string(c.namespace()), "rollout", "restart", "deployment/" + c.name()},
		} {
			_, err := kubectl(ctx, args...)
			Expect(err).NotTo(HaveOccurred())
		}
	}
	for _, c := range all {
		c.namespace().kubectl(ctx, "rollout", "status", "deployment/"+c.name(), timeout)
		Eventually(ctx, c.namespace().pods(ctx)).Should(HaveLen(1), "the former pod is gone")
	}
}

// isKueueReady waits until Kueue has exactly one running pod, and this pod answers the requests of the API server.
func isKueueReady(ctx context.Context) {
	GinkgoHelper()
	kueueNamespace.kubectl(ctx, "rollout", "status", "deployment/kueue-controller-manager", timeout)
	Eventually(ctx, kueueNamespace.pods(ctx)).Should(HaveLen(1), "the former pod is gone")
	Eventually(ctx, func() error {
		_, err := kubectlWith(ctx, "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: ready}}",
			"create", "--dry-run=server", "-f", "-")
		return err
	}).Should(Succeed())
}

// integrations returns the lines that docs/operate/kueue.md adds to the section "integrations" of Kueue's
// configuration.
func integrations() string {
	GinkgoHelper()
	document, err := os.ReadFile(filepath.Join(root, "docs/operate/kueue.md"))
	Expect(err).NotTo(HaveOccurred())
	lines := regexp.MustCompile("(?s)```yaml\nintegrations:\n(.*?)```").FindSubmatch(document)
	Expect(lines).NotTo(BeNil())
	return string(lines[1])
}

// editorOf returns the command of an editor that adds lines to the section "integrations" of Kueue's configuration.
func editorOf(lines string) string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	added, editor := filepath.Join(folder, "added"), filepath.Join(folder, "editor")
	// In the ConfigMap, the configuration is indented.
	lines = regexp.MustCompile("(?m)^").ReplaceAllString(strings.TrimSuffix(lines, "\n"), "    ") + "\n"
	Expect(os.WriteFile(added, []byte(lines), 0o600)).To(Succeed())
	Expect(os.WriteFile(editor, fmt.Appendf(nil, "#!/bin/sh\nsed -i '/^    integrations:$/r %s' \"$1\"\n", added),
		0o700)).To(Succeed())
	return editor
}

// kueueLabel is the label that puts a job into the LocalQueue named "queue".
const kueueLabel = "kueue.x-k8s.io/queue-name: queue"

// waiting creates a job from examples/pytorch/plain.yaml with the given name and labels. Before it trains, each of
// the two replicas waits for the file /tmp/enough.
func (n namespace) waiting(ctx context.Context, name, labels string) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(root, "examples/pytorch/plain.yaml"))
	Expect(err).NotTo(HaveOccurred())
	manifest := string(content)
	for former, latter := range map[string]string{
		"  name: digits-plain\n":             "  name: " + name + "\n  labels: {" + labels + "}\n",
		"          containers:\n":            "          terminationGracePeriodSeconds: 1\n          containers:\n",
		"command: [python3, /code/train.py]": `command: [sh, -c, "` + waitThenTrain + `"]`,
	} {
		Expect(manifest).To(ContainSubstring(former))
		manifest = strings.Replace(manifest, former, latter, 1)
	}
	n.kubectlWith(ctx, manifest, "apply", "-f", "-")
}

const waitThenTrain = "until [ -e /tmp/enough ]; do sleep 0.2; done; exec python3 /code/train.py"

// podsOf returns a function that returns the names of the pods of a job.
func (n namespace) podsOf(ctx context.Context, job string) func() ([]string, error) {
	return func() ([]string, error) {
		output, err := n.output(ctx, "get", "pods", "-l", "batch.tensorstack.dev/job-name="+job, "-o", "name")()
		return strings.Fields(output), err
	}
}
