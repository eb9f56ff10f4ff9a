// The data of a report that the server sent: the same methods as those of a report in a file.

import { ReportData } from "./report/data.js";

/** The `details` of an answer of /v1/inspect. */
export class LiveData extends ReportData {
  constructor({ report, blobs }) {
    super();
    Object.assign(this, { content: report, texts: blobs });
  }

  /** Everything but the arrays. */
  async report() {
    return this.content;
  }

  text(number) {
    return this.texts[number];
  }
}
