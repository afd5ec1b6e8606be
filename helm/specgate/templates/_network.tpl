{{- /* Allowed connections where egress is restricted: DNS, workers, and the rules in the values. */ -}}
{{- define "specgate.egress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- if .root.Values.engine.enabled }}
- to:
    - podSelector:
        matchLabels: {{- include "specgate.selector" (dict "root" .root "component" "engine") | nindent 10 }}
  {{- if eq .component "gateway" }}
  ports:
    - {port: 8001, protocol: TCP}
  {{- end }}
{{- end }}
{{- with .root.Values.networkPolicy.egress }}
{{ toYaml . }}
{{- end }}
{{- end -}}
