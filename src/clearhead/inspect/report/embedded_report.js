// Start the page with the data that are embedded in it.

import { EmbeddedData } from "./data.js";
import { startReport } from "./report.js";

const pagePlace = document.getElementById("page");

startReport(new EmbeddedData(document), pagePlace).catch((error) => {
  pagePlace.textContent = `This report cannot be shown: ${error.message}`;
  throw error;
});
