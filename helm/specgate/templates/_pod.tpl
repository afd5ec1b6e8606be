{{- /* Parts of both components' pods. `.root` is the chart's context, `.component` gateway or engine. */ -}}

{{- /* No root, no token, and no environment variables for all Services. */ -}}
{{- define "specgate.pod.head" -}}
serviceAccountName: {{ include "specgate.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  {{- with .root.Values.security.user }}
  runAsUser: {{ . }}
  runAsGroup: {{ . }}
  fsGroup: {{ . }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "specgate.pod.scheduling" -}}
{{- $values := index .root.Values .component -}}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $affinity := dict }}
{{- range $name, $terms := $values.affinity }}
{{- with $terms }}{{- $_ := set $affinity $name . }}{{- end }}
{{- end }}
{{- with $affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $keys := dict "hosts" "kubernetes.io/hostname" "zones" "topology.kubernetes.io/zone" }}
{{- if or $values.topologySpread.hosts $values.topologySpread.zones }}
topologySpreadConstraints:
  {{- range $level, $key := $keys }}
  {{- with index $values.topologySpread $level }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: {{ . }}
    labelSelector:
      matchLabels: {{- include "specgate.selector" $ | nindent 8 }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "specgate.container.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- /* `ephemeralStorage` becomes `ephemeral-storage`; `.gpus` adds devices. */ -}}
{{- define "specgate.container.resources" -}}
resources:
  {{- range $kind := list "requests" "limits" }}
  {{- $amounts := dict }}
  {{- range $name, $amount := index $.resources $kind }}
  {{- if not (kindIs "invalid" $amount) }}
  {{- $_ := set $amounts (kebabcase $name) (toString $amount) }}
  {{- end }}
  {{- end }}
  {{- with $.gpus }}
  {{- if .count }}
  {{- $_ := set $amounts .resource (toString .count) }}
  {{- end }}
  {{- end }}
  {{- with $amounts }}
  {{ $kind }}: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end -}}

{{- define "specgate.container.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
periodSeconds: {{ .probe.periodSeconds }}
timeoutSeconds: {{ .probe.timeoutSeconds }}
failureThreshold: {{ .probe.failureThreshold }}
{{- end -}}

{{- /* Kubernetes has a sleep action since 1.30; older versions run the image's command. */ -}}
{{- define "specgate.sleep" -}}
{{- if semverCompare ">=1.30-0" .root.Capabilities.KubeVersion.Version -}}
sleep:
  seconds: {{ .seconds }}
{{- else -}}
exec:
  command: [sleep, {{ .seconds | quote }}]
{{- end -}}
{{- end -}}
